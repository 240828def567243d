import { type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { answer, endpointOf, isPatient, maxBodyBytes, type Received } from './answer.js'
import { type Asked } from './asked.js'
import { isPreflight, preflightReply, readableBy } from './cors.js'
import { distorted } from './distort.js'
import { type Fault } from './fault.js'
import { type Faults, type Strike } from './faults.js'
import { type Ledger } from './ledger.js'
import { type Settings } from './options.js'
import { type View } from './question.js'
import { type Reply } from './reply.js'
import { headView } from './vantage.js'
import { type Ending, readBody, reset, send, sendGarbage } from './wire.js'

const pollMs = 20

/** What a node serves from. */
export interface Node {
  readonly settings: Settings
  readonly ledger: Ledger
  readonly faults: Faults
  readonly asked: Asked
}

/** Serves one request: count it, wait as told, read, distort, send. */
export async function serve (node: Node, request: IncomingMessage, response: ServerResponse): Promise<void> {
  // A browser's own question is nothing that the node is asked.
  if (isPreflight(request.method, request.headers)) return send(response, preflightReply(request.headers), 'whole')
  const received = await receive(node, request)
  const strike = node.faults.strike(endpointOf(received.rawTarget, node.settings))
  await waits(strike, false)
  await patience(node, received, strike)
  const reply = replyTo(node, received, strike)
  await waits(strike, true)
  deliver(request, response, reply, strike.faults.map(({ fault }) => fault))
}

async function receive ({ settings, asked }: Node, request: IncomingMessage): Promise<Received> {
  const { headers, rawHeaders } = request
  const [method, url] = [String(request.method), String(request.url)]
  const entry = { endpoint: endpointOf(url, settings), method, url, headers: rawHeaders, body: '' }
  const serial = asked.total
  asked.note(entry)
  const contentLength = headers['content-length']
  // What is refused for its size is refused unread.
  const body = method === 'POST' && Number(contentLength ?? Infinity) <= maxBodyBytes
    ? await readBody(request, maxBodyBytes)
    : Buffer.alloc(0)
  entry.body = body.toString()
  // Loaded and made when asked for alone: hardly any node ever is.
  const spec = entry.endpoint === 'spec' ? (await import('./openapi/spec.js')).specOf(settings) : undefined
  return {
    method,
    rawTarget: url,
    contentLength,
    contentType: headers['content-type'],
    accept: headers.accept,
    body,
    serial,
    spec
  }
}

async function waits ({ faults, holds }: Strike, late: boolean): Promise<void> {
  await Promise.all(holds.filter(hold => hold.late === late).map(hold => hold.released))
  for (const { fault } of faults) {
    if (fault.kind === 'slow' && Boolean(fault.late) === late) await wait(fault.ms, undefined, { ref: false })
  }
}

// Looks again and again, as the nodes do.
async function patience (node: Node, received: Received, strike: Strike): Promise<void> {
  const { waitByHashMs } = node.settings
  for (
    let waited = 0;
    waited < waitByHashMs && isPatient(received, viewOf(node, strike), node.settings);
    waited += pollMs
  ) {
    await wait(pollMs, undefined, { ref: false })
  }
}

function viewOf ({ ledger }: Node, { faults }: Strike): View {
  return faults.find(({ vantage }) => vantage !== undefined)?.vantage?.() ?? headView(ledger)
}

function replyTo (node: Node, received: Received, strike: Strike): Reply {
  const { settings } = node
  const view = viewOf(node, strike)
  const stamp = { position: view.position, family: settings.family }
  return strike.faults.reduce((truth, { fault }) => distorted(truth, fault, stamp), answer(received, view, settings))
}

function deliver (request: IncomingMessage, response: ServerResponse, reply: Reply, faults: readonly Fault[]): void {
  const kinds = new Set(faults.map(({ kind }) => kind))
  if (response.destroyed || kinds.has('hang')) return
  if (kinds.has('reset')) reset(request)
  else if (kinds.has('garbage')) sendGarbage(request)
  else send(response, readableBy(request.headers.origin, reply), endingOf(faults))
}

function endingOf (faults: readonly Fault[]): Ending {
  const cut = faults.find(fault => fault.kind === 'cutShort')
  if (cut === undefined) return 'whole'
  return cut.chunked === true ? 'noLastChunk' : 'half'
}
