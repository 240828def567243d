import { type EndpointName, type Route, routeOf } from './routes.js'
import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { emptyResponse, makeResponse, printErrorBody, problemResponse, type SandboxResponse } from './make-response.js'
import { setTimeout as wait } from 'node:timers/promises'
import { readQuery, readTarget } from './params.js'
import { frameworkProblem, Problem } from './problem.js'
import { isPending } from './read-transactions.js'
import { applyResponseFault, type Fault, type FaultInjector, type InjectedFaults, headSnapshot } from './faults.js'
import { type Ledger } from './ledger.js'
import { type Settings } from './options.js'
import { type LedgerSnapshot } from './request-context.js'

const pollMs = 20

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

/** State that a sandbox node serves from. */
export interface SandboxNode {
  readonly settings: Settings
  /** Replaced by a reset. */
  ledger: Ledger
  readonly faults: FaultInjector
  readonly requests: RequestLog
}

/** Serves one request: log it, wait for its faults, read, apply the faults, send. */
export async function serveRequest (
  node: SandboxNode,
  request: IncomingMessage,
  response: ServerResponse
): Promise<void> {
  // CORS preflights are not logged and match no fault.
  if (isPreflight(request.method, request.headers)) {
    return writeResponse(response, preflightResponse(request.headers), 'whole')
  }
  const received = await receive(node, request)
  const injected = node.faults.takeMatching(endpointOf(received.rawTarget, node.settings, received.method))
  await waitForFaults(injected, false)
  await pollUntilCommitted(node, received, injected)
  const nodeResponse = respondWithFaults(node, received, injected)
  await waitForFaults(injected, true)
  deliver(request, response, nodeResponse, injected.faults.map(({ fault }) => fault))
}

async function receive ({ settings, requests }: SandboxNode, request: IncomingMessage): Promise<ReceivedRequest> {
  const { headers, rawHeaders } = request
  const [method, url] = [String(request.method), String(request.url)]
  const entry = { endpoint: endpointOf(url, settings, method), method, url, headers: rawHeaders, body: '' }
  const requestIndex = requests.total
  requests.record(entry)
  const contentLength = headers['content-length']
  // A body that exceeds the limit is rejected unread.
  const body = method === 'POST' && Number(contentLength ?? Infinity) <= maxBodyBytes
    ? await readBody(request, maxBodyBytes)
    : Buffer.alloc(0)
  entry.body = body.toString()
  return {
    method,
    rawTarget: url,
    contentLength,
    contentType: headers['content-type'],
    accept: headers.accept,
    body,
    requestIndex
  }
}

async function waitForFaults ({ faults, holds }: InjectedFaults, late: boolean): Promise<void> {
  await Promise.all(holds.filter(hold => hold.late === late).map(hold => hold.released))
  for (const { fault } of faults) {
    if (fault.kind === 'slow' && Boolean(fault.late) === late) await wait(fault.ms, undefined, { ref: false })
  }
}

// Polls for the transaction, as nodes do.
async function pollUntilCommitted (
  node: SandboxNode,
  { rawTarget }: ReceivedRequest,
  injected: InjectedFaults
): Promise<void> {
  const { settings, settings: { waitByHashMs } } = node
  const target = readTarget(rawTarget)
  if (typeof target === 'number' || endpointOf(rawTarget, settings) !== 'transaction_wait_by_hash') return
  const hash = String(segmentsOf(target.path, settings.pathPrefix).at(-1))
  for (let waited = 0; waited < waitByHashMs && isPending(snapshotOf(node, injected), hash); waited += pollMs) {
    await wait(pollMs, undefined, { ref: false })
  }
}

function snapshotOf ({ ledger }: SandboxNode, { faults }: InjectedFaults): LedgerSnapshot {
  const snapshot = faults.find(({ snapshotSource }) => snapshotSource !== undefined)?.snapshotSource?.() ??
    headSnapshot(ledger)
  return { ...snapshot, tailFault: faults.map(({ fault }) => fault).find(fault => fault.kind === 'tail') }
}

function respondWithFaults (node: SandboxNode, received: ReceivedRequest, injected: InjectedFaults): SandboxResponse {
  const { settings } = node
  const snapshot = snapshotOf(node, injected)
  const stamp = { position: snapshot.position, family: settings.family }
  return injected.faults.reduce(
    (current, { fault }) => applyResponseFault(current, fault, stamp),
    dispatch(received, snapshot, settings)
  )
}

function deliver (
  request: IncomingMessage,
  response: ServerResponse,
  nodeResponse: SandboxResponse,
  faults: readonly Fault[]
): void {
  const kinds = new Set(faults.map(({ kind }) => kind))
  if (response.destroyed || kinds.has('hang')) return
  if (kinds.has('reset')) resetConnection(request)
  else if (kinds.has('garbage')) request.socket.end('\u0000\u0001 this is not HTTP\r\n\r\n')
  else writeResponse(response, withCorsHeaders(request.headers.origin, nodeResponse), endingOf(faults))
}

function endingOf (faults: readonly Fault[]): BodyEnding {
  const cut = faults.find(fault => fault.kind === 'cutShort')
  if (cut === undefined) return 'whole'
  return cut.chunked === true ? 'noLastChunk' : 'half'
}

function isPreflight (method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

/** Responds to a preflight as nodes do: any origin and any headers, but only GET and POST. */
function preflightResponse (headers: IncomingHttpHeaders): SandboxResponse {
  const method = headers['access-control-request-method']
  if (method !== 'GET' && method !== 'POST') {
    return makeResponse(403, 'framework', printErrorBody('request-method not allowed', 'web_framework_error'))
  }
  return {
    status: 200,
    headers: [
      ...corsHeaders(String(headers.origin)),
      ['access-control-allow-methods', 'GET,POST'],
      ['access-control-allow-headers', headers['access-control-request-headers'] ?? '*'],
      ['access-control-max-age', '86400']
    ],
    body: Buffer.alloc(0)
  }
}

/** Adds the CORS headers of nodes, which expose no response header; see docs/node-behaviour.md, "CORS". */
function withCorsHeaders (origin: string | undefined, response: SandboxResponse): SandboxResponse {
  // Responses of the HTTP layer, which have no headers, never reach the framework that adds CORS headers.
  if (origin === undefined || response.headers.length === 0) return response
  return { ...response, headers: [...response.headers, ...corsHeaders(origin)] }
}

function corsHeaders (origin: string): Array<[string, string]> {
  return [['access-control-allow-origin', origin], ['access-control-allow-credentials', 'true'], ['vary', 'Origin']]
}

/** Ending of a response on the wire: complete, or cut off within the body. */
type BodyEnding = 'whole' | 'half' | 'noLastChunk'

/** Sends a response with lower-case header names and without a `connection` header, as nodes do. */
function writeResponse (response: ServerResponse, nodeResponse: SandboxResponse, ending: BodyEnding): void {
  const length: Array<[string, string]> = ending === 'noLastChunk'
    ? [['transfer-encoding', 'chunked']]
    : [['content-length', String(nodeResponse.body.length)]]
  const setNames = new Set(nodeResponse.headers.map(([name]) => name.toLowerCase()))
  const added = [...length, ['date', new Date().toUTCString()] as const].filter(([name]) => !setNames.has(name))
  response.sendDate = false
  response.removeHeader('connection')
  // A response without headers means an unreadable request, after which the connection cannot be reused.
  if (nodeResponse.headers.length === 0) response.shouldKeepAlive = false
  response.writeHead(nodeResponse.status, [...nodeResponse.headers, ...added].flat())
  if (ending === 'whole') {
    response.end(nodeResponse.body)
    return
  }
  response.flushHeaders()
  const part = ending === 'half'
    ? nodeResponse.body.subarray(0, Math.floor(nodeResponse.body.length / 2))
    : nodeResponse.body
  response.write(part, () => response.socket?.destroy())
}

/** Resets the connection without sending a byte. */
function resetConnection ({ socket }: IncomingMessage): void {
  // Node never closes a socket that is reset while it ends.
  if (socket.writableEnded && !socket.writableFinished) socket.destroy()
  else socket.resetAndDestroy()
}

/** Reads a body to its end; discards the chunk that exceeds `maxBytes` and all later ones. */
export async function readBody (request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= maxBytes) chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** One received request; the body is empty until it has been read. */
export interface RequestLogEntry {
  readonly endpoint: EndpointName
  readonly method: string
  readonly url: string
  /** Alternating names and values, as received. */
  readonly headers: readonly string[]
  body: string
}

const maxEntries = 1_000

/** Log of received requests: counts of all, details of the latest 1,000. */
export class RequestLog {
  readonly #counts = new Map<EndpointName, number>()
  #latest: RequestLogEntry[] = []

  /** Number of requests received. */
  get total (): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0)
  }

  /** The latest requests, oldest first. */
  get latest (): readonly RequestLogEntry[] {
    return this.#latest
  }

  /** Number of requests by endpoint. */
  get counts (): Record<string, number> {
    return Object.fromEntries(this.#counts)
  }

  /** Returns the number of requests for one endpoint. */
  countFor (endpoint: EndpointName): number {
    return this.#counts.get(endpoint) ?? 0
  }

  /** @internal Counts a request and records its details. */
  record (entry: RequestLogEntry): void {
    this.#counts.set(entry.endpoint, this.countFor(entry.endpoint) + 1)
    this.#latest.push(entry)
    if (this.#latest.length > maxEntries) this.#latest.shift()
  }

  /** Clears all counts and details. */
  reset (): void {
    this.#counts.clear()
    this.#latest = []
  }
}
