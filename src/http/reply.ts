import { type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type EndpointLabel, type Metrics } from '../metrics/metrics.js'
import { type KnownReads } from '../proxy/known-read.js'
import { outcomeOfError, type OutcomeName } from '../proxy/outcomes.js'
import { type Parts } from '../proxy/parts.js'
import { type Reply, type Stamper } from '../proxy/stamp.js'
import { matchEndpoint } from '../api/read-request.js'
import { type Rest } from '../api/answer.js'
import { type Refusal } from '../api/refusal.js'
import { type Access } from './access.js'
import { type Certificate } from './certificate.js'
import { type ClientConnections } from './client-connections.js'
import { type Cors } from './cors.js'
import { type Drain } from './drain.js'
import { type Exchange } from './exchange.js'
import { refusalOf } from './refusal-of.js'
import { traceIdOf } from './trace-context.js'
import { writeHead } from './write-head.js'

/** What the public listener is made of. */
export interface PublicParts {
  readonly config: Pick<Config, 'limits' | 'log' | 'trustProxy' | 'pages' | 'passThrough'>
  readonly parts: Parts
  readonly known: KnownReads
  readonly access: Access
  readonly stamper: Stamper
  readonly metrics: Metrics
  readonly log: Logger
  /** Whether every response says that its data is made up. */
  readonly isSandbox: boolean
  readonly drain: Drain
  readonly cors: Cors
  readonly clients: ClientConnections
  /** Of a listener over TLS. */
  readonly certificate?: Certificate | undefined
}

const bitBytes = 64 * 1024
const none: readonly string[] = []
/** Marks each response of a sandbox (law 14: made-up data is never served by accident). */
export const sandboxLine = ['X-Varve-Sandbox', 'true'] as const
const nothing = Buffer.alloc(0)

/** The one place that replies: writes the answer out, counts it and, where asked for, logs it. */
export function replyWith (
  context: PublicParts,
  exchange: Exchange,
  endpoint: EndpointLabel,
  outcome: OutcomeName,
  ready: Reply
): void {
  const { request, response, method } = exchange
  const tookMs = context.parts.now() - exchange.receivedAtMs
  writeHead(response, ready, moreLines(context, method, request.headers.origin))
  write(context.clients, ready, method, response)
  const client = context.access.nameOf(request)
  context.metrics.answered(endpoint, outcome, ready.status, tookMs / 1000, client)
  if (context.config.log.access) {
    const cacheStatus = valueOf(ready.lines, 'cache-status')
    context.log.info({
      ...namedIn(exchange),
      method,
      url: exchange.url,
      client,
      endpoint,
      outcome,
      status: ready.status,
      cacheStatus,
      tookMs: Math.round(tookMs * 1000) / 1000
    }, 'answered')
  }
}

/**
 * Replies with what varve refuses; a known read bears the present position then too, and who asks for too much is
 * counted.
 */
export function refuseWith (context: PublicParts, exchange: Exchange, refusal: Refusal): void {
  const { access, metrics, stamper } = context
  const endpoint = matchEndpoint(exchange.url, exchange.method)?.endpoint.name
  if (refusal.status === 429) metrics.limited(access.nameOf(exchange.request) === undefined ? 'address' : 'key')
  // Where the chain stands is for those who may ask.
  const bearsPosition = endpoint !== undefined && !access.lacksKey(exchange.request)
  replyWith(
    context,
    exchange,
    endpoint ?? 'other',
    outcomeOfError(refusal.status),
    stamper.refuse(refusal, bearsPosition)
  )
}

/**
 * Replies where something has failed. What nobody foresaw is told to an operator and answered 500, whatever stage it
 * comes from; where the answer was begun already, or this fails too, all that is left is to break the connection off,
 * or the client would wait for ever.
 */
export function failWith (context: PublicParts, exchange: Exchange, error: unknown): void {
  const refusal = refusalOf(error)
  // One number for all lines on it.
  const { id, traceId } = namedIn(exchange)
  const named: Exchange = { ...exchange, id: () => id }
  if (refusal.status === 500) tellUnforeseen(context, error, { id, traceId })
  // What was answered to its end is answered, whatever failed after that.
  if (exchange.response.writableEnded) return
  try {
    refuseWith(context, named, refusal)
  } catch (reason) {
    tellUnforeseen(context, reason, { id, traceId })
    exchange.response.destroy()
  }
}

/** Logs and counts what failed while a request was answered, in a way that nobody foresaw. */
export function tellUnforeseen (
  { log, metrics }: Pick<PublicParts, 'log'> & { readonly metrics: Pick<Metrics, 'process'> },
  error: unknown,
  named: Partial<Named> = {}
): void {
  metrics.process.unhandled('request')
  log.error({ ...named, err: error }, 'a request failed in a way that nobody foresaw')
}

/**
 * By what a request is known in every line of the log that is about it: varve's own number, and the trace that its
 * client says it belongs to.
 */
interface Named {
  readonly id: string
  readonly traceId: string | undefined
}

function namedIn ({ id, request }: Exchange): Named {
  return { id: id(), traceId: traceIdOf(request.headers) }
}

// What depends on who asks and when, not on the answer.
function moreLines (
  { cors, stamper, drain, isSandbox }: PublicParts,
  method: string,
  origin: string | undefined
): readonly string[] {
  if (origin === undefined && !drain.isDraining) return isSandbox ? sandboxLine : none
  // A preflight's grant has lines of its own.
  const granted = origin === undefined || method === 'OPTIONS' ? [] : cors.linesFor(origin, stamper.families)
  return [...(isSandbox ? sandboxLine : none), ...granted, ...(drain.isDraining ? ['connection', 'close'] : [])]
}

function valueOf (lines: readonly string[], name: string): string | undefined {
  return lines[lines.indexOf(name) + 1]
}

function write (clients: ClientConnections, { status, body, rest }: Reply, method: string, raw: ServerResponse): void {
  // These have no body, whatever their lines say of one (RFC 9110, section 6.4.1).
  const isBodiless = method === 'HEAD' || status === 204 || status === 304
  if (rest !== undefined && !isBodiless) return stream(clients, body, rest, raw)
  rest?.destroy()
  if (body === undefined || isBodiless) raw.end()
  else {
    writeInBits(clients, body, raw, last => {
      raw.end(last)
    })
  }
}

/**
 * Writes what has come and then the rest as it comes. A body that breaks off breaks the connection, or the client would
 * take it for whole.
 */
function stream (clients: ClientConnections, begun: Buffer | undefined, rest: Rest, raw: ServerResponse): void {
  const letGo = (): void => {
    rest.destroy()
  }
  // A client that leaves is told of by the pipeline, one that has left already, or leaves before that, is not.
  if (raw.destroyed) letGo()
  raw.once('close', letGo)
  writeInBits(clients, begun ?? nothing, raw, last => {
    raw.off('close', letGo)
    clients.releases(raw)
    if (last.length > 0) raw.write(last)
    pipeline(rest, raw).catch(() => {
      raw.destroy()
    })
  })
}

/** A long body goes to the system bit by bit: how much of one bit a client has taken is told by nothing. */
function writeInBits (
  clients: ClientConnections,
  body: Buffer,
  raw: ServerResponse,
  onLast: (bit: Buffer) => void
): void {
  if (body.length > 2 * bitBytes) clients.holds(raw, body)
  let at = 0
  const go = (): void => {
    // Of two, few clients notice the first.
    if (body.length - at <= 2 * bitBytes) return onLast(at === 0 ? body : body.subarray(at))
    if (raw.write(body.subarray(at, at += bitBytes))) go()
    else raw.once('drain', go)
  }
  go()
}
