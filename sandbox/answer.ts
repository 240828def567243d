import { type Spec } from './openapi/piece.js'
import { type Settings } from './options.js'
import { framework, Problem } from './problem.js'
import { type View } from './question.js'
import { bodyless, problemReply, type Reply } from './reply.js'
import { isWaiting } from './read-transactions.js'
import { type EndpointName, type Route, routeOf } from './routes.js'
import { readQuery, readTarget } from './target.js'

/** The largest body of a request. */
export const maxBodyBytes = 8 * 1024 * 1024

/** A request as it came in. */
export interface Received {
  readonly method: string
  readonly rawTarget: string
  readonly contentLength: string | undefined
  readonly contentType: string | undefined
  readonly accept: string | undefined
  readonly body: Buffer
  readonly serial: number
  /** What the node says of itself, where that is asked for. */
  readonly spec?: Spec | undefined
}

/** Answers a request from what the node can see of its chain: the same request and view give the same bytes. */
export function answer (received: Received, view: View, settings: Settings): Reply {
  const target = readTarget(received.rawTarget)
  if (typeof target === 'number') return bodyless(target)
  const { accept, contentType, body, serial, spec } = received
  const query = readQuery(target.query)
  const segments = segmentsOf(target.path, settings.pathPrefix)
  try {
    checkSize(received)
    const { answer, params } = dispatch(received.method, segments)
    return answer({ params, query, accept, contentType, body, serial, view, settings, spec })
  } catch (error) {
    // What breaks within the ledger is a 500 with the position.
    const problem = error instanceof Problem ? error : new Problem('ledger', 'internal_error', String(error))
    return problemReply(problem, { position: view.position, family: settings.family })
  }
}

/** Which endpoint a raw target names. */
export function endpointOf (rawTarget: string, settings: Settings): EndpointName {
  const target = readTarget(rawTarget)
  if (typeof target === 'number') return 'other'
  return routeOf(segmentsOf(target.path, settings.pathPrefix))?.endpoint ?? 'other'
}

/** Whether a request waits for what is yet to come. */
export function isPatient ({ rawTarget }: Received, view: View, settings: Settings): boolean {
  const target = readTarget(rawTarget)
  if (typeof target === 'number' || endpointOf(rawTarget, settings) !== 'transaction_wait_by_hash') return false
  return segmentsOf(target.path, settings.pathPrefix).slice(-1).some(hash => isWaiting(view, hash))
}

// The size is looked at before the route.
function checkSize ({ method, contentLength }: Received): void {
  if (method !== 'POST') return
  if (contentLength === undefined) throw framework('missing `Content-Length` header', 411)
  if (Number(contentLength) > maxBodyBytes) throw framework('payload too large', 413)
}

function dispatch (method: string, segments: readonly string[]): { answer: Route['answer'], params: string[] } {
  const route = routeOf(segments)
  if (route === undefined) throw framework('not found', 404)
  // What can be read can be asked for by its head alone.
  if (method !== route.method && !(method === 'HEAD' && route.method === 'GET')) {
    throw framework('method not allowed', 405)
  }
  return { answer: route.answer, params: segments.filter((_, index) => route.path[index] === ':') }
}

function segmentsOf (path: string, prefix: string): string[] {
  return path.startsWith(`${prefix}/`) ? path.slice(prefix.length + 1).split('/') : []
}
