import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { dispatch, endpointOf, isLongPollPending, maxBodyBytes, type ReceivedRequest } from './dispatch.js'
import { type RequestLog } from './request-log.js'
import { applyResponseFault } from './apply-response-fault.js'
import { type Fault } from './fault.js'
import { type FaultInjector, type InjectedFaults } from './fault-injector.js'
import { type Ledger } from './ledger.js'
import { type Settings } from './options.js'
import { type LedgerSnapshot } from './request-context.js'
import { makeResponse, printErrorBody, type SandboxResponse } from './make-response.js'
import { headSnapshot } from './ledger-fault.js'
import { type BodyEnding, readBody, resetConnection, writeResponse, sendGarbage } from './http-io.js'

const pollMs = 20

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
  received: ReceivedRequest,
  injected: InjectedFaults
): Promise<void> {
  const { waitByHashMs } = node.settings
  for (
    let waited = 0;
    waited < waitByHashMs && isLongPollPending(received, snapshotOf(node, injected), node.settings);
    waited += pollMs
  ) {
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
  else if (kinds.has('garbage')) sendGarbage(request)
  else writeResponse(response, withCorsHeaders(request.headers.origin, nodeResponse), endingOf(faults))
}

function endingOf (faults: readonly Fault[]): BodyEnding {
  const cut = faults.find(fault => fault.kind === 'cutShort')
  if (cut === undefined) return 'whole'
  return cut.chunked === true ? 'noLastChunk' : 'half'
}

/** True for a CORS preflight request. */
function isPreflight (method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

/** Responds to a preflight: any origin and any headers, but only GET and POST. */
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
