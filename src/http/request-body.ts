import { type IncomingMessage, type ServerResponse } from 'node:http'
import { errorCodes, type FastifyReply, type FastifyRequest } from 'fastify'
import { webFrameworkError, unavailableError } from '../api/error-response.js'
import { BodyChunks } from '../upstreams/exchange.js'
import { type HeldBytes, RequestBytes } from '../upstreams/in-flight-bytes.js'
import { type ListenerContext } from './send-response.js'

// Limits chunks, because parsing costs the same for a chunk of one byte as of thousands; honest clients send some
// hundred.
const maxChunks = 16_384

/**
 * Reads a request body as bytes (law 2: bytes are sacred). Fastify's own reader keeps an object for each chunk, so a
 * megabyte in chunks of one byte would take hundreds (law 10: nothing grows without bound).
 */
export function readBody (
  payload: IncomingMessage,
  maxBytes: number,
  done: (error: Error | null, body?: Buffer) => void
): void {
  if (Number(payload.headers['content-length']) > maxBytes) {
    done(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE())
    return
  }
  const chunks = new BodyChunks()
  let count = 0
  const finish = (error: Error | null, body?: Buffer): void => {
    payload.off('data', onData).off('end', onEnd).off('error', finish)
    done(error, body)
  }
  const onData = (chunk: Buffer): void => {
    chunks.add(chunk)
    if (chunks.length > maxBytes) finish(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE())
    else if (++count > maxChunks) finish(webFrameworkError(413, 'the request body has too many chunks'))
  }
  const onEnd = (): void => finish(null, chunks.join())
  payload.on('data', onData).on('end', onEnd).on('error', finish).resume()
}

/** Spreads work over turns of the event loop, so that hits and new connections are served in between. */
export class TurnQueue {
  readonly #perTurn: number
  readonly #maxQueued: number
  readonly #queue: Array<{ readonly cost: number, readonly response: ServerResponse, readonly start: () => void }> = []
  #queued = 0
  #used = 0
  #isTurnDue = false

  /** Runs at most `perTurn` in one turn; work that costs more gets a turn of its own. */
  constructor (perTurn: number, maxQueued = Infinity) {
    this.#perTurn = perTurn
    this.#maxQueued = maxQueued
  }

  /** Takes a part of the present turn; returns false if the turn is used up, or if other work waits. */
  tryStart (cost: number): boolean {
    if (this.#queue.length > 0 || this.#used >= this.#perTurn) return false
    this.#used += cost
    this.#awaitTurn()
    return true
  }

  /**
   * Resolves in a later turn, in which the work for a response may begin; never if its client leaves first. Rejects
   * with 503 once too much work waits, since clients that leave do not free memory at once (law 10: nothing grows
   * without bound).
   */
  async waitForTurn (cost: number, response: ServerResponse): Promise<void> {
    if (this.#queued >= this.#maxQueued) {
      throw unavailableError('overloaded: too many large request bodies at a time, retry later')
    }
    this.#queued += cost
    this.#awaitTurn()
    await new Promise<void>(resolve => this.#queue.push({ cost, response, start: resolve }))
  }

  #awaitTurn (): void {
    if (this.#isTurnDue) return
    this.#isTurnDue = true
    setImmediate(() => {
      this.#isTurnDue = false
      this.#beginTurn()
    })
  }

  #beginTurn (): void {
    this.#used = 0
    while (this.#used < this.#perTurn) {
      const next = this.#queue.shift()
      if (next === undefined) break
      this.#queued -= next.cost
      if (next.response.destroyed) continue
      this.#used += next.cost
      next.start()
    }
    if (this.#used > 0) this.#awaitTurn()
  }
}

// Size up to which a body is not counted: such bodies come with their heads, and the connection limit bounds them.
const minBodyBytes = 16 * 1024

/**
 * Budget for the bytes of client requests: their bodies and what is fetched for them, held until the response is over.
 */
export class RequestMemoryBudget {
  readonly #context: Pick<ListenerContext, 'config' | 'proxy' | 'metrics'>
  // Bytes of requests with a large body, by their response.
  readonly #requests = new WeakMap<ServerResponse, RequestBytes>()
  readonly #chunkedBodies = new WeakMap<FastifyRequest, HeldBytes>()

  constructor (context: Pick<ListenerContext, 'config' | 'proxy' | 'metrics'>) {
    this.#context = context
  }

  /** Returns the bytes of the request that the response answers. */
  of (response: ServerResponse, clientId: string): RequestBytes {
    return this.#requests.get(response) ?? new RequestBytes(clientId, this.#context.proxy.inFlight, response)
  }

  /**
   * Takes the announced length of a body, or the limit if it is chunked. Throws a 503 if the budget is used up (law 10:
   * nothing grows without bound).
   */
  takeBody (request: FastifyRequest, { raw }: FastifyReply, clientId: string): void {
    const { config: { limits }, proxy: { inFlight }, metrics } = this.#context
    const { 'transfer-encoding': coding, 'content-length': length } = request.headers
    const maxBytes = limits.bodyKb * 1024
    const bytes = coding === undefined ? Number(length ?? 0) : maxBytes
    // Skips a body beyond the limit: it gets a 413, for which nothing of the body is read.
    if (!(bytes > minBodyBytes && bytes <= maxBytes)) return
    if (!inFlight.admits(clientId)) {
      metrics.overBudget()
      throw unavailableError('limits.inFlightMb is used up: no room for a large request body, retry later')
    }
    const taken = inFlight.take(bytes, clientId)
    const held = this.of(raw, clientId)
    this.#requests.set(raw, held)
    held.add(taken)
    if (coding !== undefined) this.#chunkedBodies.set(request, taken)
  }

  /** Replaces the limit that a chunked body took with its actual length. */
  settleBody (request: FastifyRequest, { raw }: FastifyReply, clientId: string, length: number): void {
    const taken = this.#chunkedBodies.get(request)
    if (taken === undefined) return
    taken.release()
    if (length > minBodyBytes) this.of(raw, clientId).add(this.#context.proxy.inFlight.take(length, clientId))
  }
}
