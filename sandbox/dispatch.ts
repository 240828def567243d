import { type Settings } from './options.js'
import { frameworkProblem, Problem } from './problem.js'
import { type LedgerSnapshot } from './request-context.js'
import { emptyResponse, problemResponse, type SandboxResponse } from './make-response.js'
import { isPending } from './read-transactions.js'
import { type EndpointName, type Route, routeOf } from './routes.js'
import { readQuery, readTarget } from './params.js'

/** Largest request body in bytes; a larger one is rejected with 413. */
export const maxBodyBytes = 8 * 1024 * 1024

/** Request as received. */
export interface ReceivedRequest {
  readonly method: string
  readonly rawTarget: string
  readonly contentLength: string | undefined
  readonly contentType: string | undefined
  readonly accept: string | undefined
  readonly body: Buffer
  readonly requestIndex: number
}

/** Responds to a request from a snapshot; the same request and snapshot give the same bytes. */
export function dispatch (request: ReceivedRequest, snapshot: LedgerSnapshot, settings: Settings): SandboxResponse {
  const target = readTarget(request.rawTarget)
  if (typeof target === 'number') return emptyResponse(target)
  const { accept, contentType, body, requestIndex } = request
  const query = readQuery(target.query)
  const segments = segmentsOf(target.path, settings.pathPrefix)
  try {
    requireSize(request)
    const { read, params } = findRoute(request.method, segments)
    return read({ params, query, accept, contentType, body, requestIndex, snapshot, settings })
  } catch (error) {
    // Any other error is reported as a failure of the ledger: a 500 with the position.
    const problem = error instanceof Problem ? error : new Problem('ledger', 'internal_error', String(error))
    return problemResponse(problem, { position: snapshot.position, family: settings.family })
  }
}

/** Returns the endpoint of a method and a raw target; `other` if there is none. */
export function endpointOf (rawTarget: string, settings: Settings, method = 'GET'): EndpointName {
  const target = readTarget(rawTarget)
  if (typeof target === 'number') return 'other'
  return routeOf(segmentsOf(target.path, settings.pathPrefix), method)?.endpoint ?? 'other'
}

/** True if a request is a long poll for a pending transaction. */
export function isLongPollPending (
  { rawTarget }: ReceivedRequest,
  snapshot: LedgerSnapshot,
  settings: Settings
): boolean {
  const target = readTarget(rawTarget)
  if (typeof target === 'number' || endpointOf(rawTarget, settings) !== 'transaction_wait_by_hash') return false
  return segmentsOf(target.path, settings.pathPrefix).slice(-1).some(hash => isPending(snapshot, hash))
}

// Nodes check the size before the route.
function requireSize ({ method, contentLength }: ReceivedRequest): void {
  if (method !== 'POST') return
  if (contentLength === undefined) throw frameworkProblem('missing `Content-Length` header', 411)
  if (Number(contentLength) > maxBodyBytes) throw frameworkProblem('payload too large', 413)
}

function findRoute (method: string, segments: readonly string[]): { read: Route['read'], params: string[] } {
  const route = routeOf(segments, method)
  if (route === undefined) throw frameworkProblem('not found', 404)
  // Every GET route accepts HEAD.
  if (method !== route.method && !(method === 'HEAD' && route.method === 'GET')) {
    throw frameworkProblem('method not allowed', 405)
  }
  return { read: route.read, params: segments.filter((_, index) => route.path[index] === ':') }
}

function segmentsOf (path: string, prefix: string): string[] {
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length + 1).split('/') : []
}
