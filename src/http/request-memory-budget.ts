import { type ServerResponse } from 'node:http'
import { type FastifyReply, type FastifyRequest } from 'fastify'
import { unavailableError } from '../api/error-response.js'
import { type HeldBytes, RequestBytes } from '../upstreams/in-flight-bytes.js'
import { type ListenerContext } from './send-response.js'

// Smaller bodies come with their heads, and are bounded by the connection limit.
const minBodyBytes = 16 * 1024

/** Bytes of client requests, of their bodies and of what is fetched for them, held until the response is over. */
export class RequestMemoryBudget {
  readonly #context: Pick<ListenerContext, 'config' | 'proxy' | 'metrics'>
  readonly #requests = new WeakMap<ServerResponse, RequestBytes>()
  readonly #chunkedBodies = new WeakMap<FastifyRequest, HeldBytes>()

  constructor (context: Pick<ListenerContext, 'config' | 'proxy' | 'metrics'>) {
    this.#context = context
  }

  /** Returns the bytes of the request that this response answers. */
  of (response: ServerResponse, clientId: string): RequestBytes {
    const known = this.#requests.get(response)
    if (known !== undefined) return known
    const bytes = new RequestBytes(clientId)
    this.#requests.set(response, bytes)
    response.once('close', () => {
      bytes.end()
    })
    if (response.destroyed) bytes.end()
    return bytes
  }

  /**
   * Takes the announced length of a body, or the limit for a chunked one; throws a 503 where none is left (law 10:
   * nothing grows without bound).
   */
  takeBody (request: FastifyRequest, { raw }: FastifyReply, clientId: string): void {
    const { config: { limits }, proxy: { inFlight }, metrics } = this.#context
    const { 'transfer-encoding': coding, 'content-length': length } = request.headers
    const maxBytes = limits.bodyKb * 1024
    const bytes = coding === undefined ? Number(length ?? 0) : maxBytes
    // Leaves a body beyond the limit to the 413, which reads none of it.
    if (!(bytes > minBodyBytes && bytes <= maxBytes)) return
    if (!inFlight.admits(clientId)) {
      metrics.overBudget()
      throw unavailableError('limits.inFlightMb is used up: no room for a large request body, retry later')
    }
    const taken = inFlight.take(bytes, clientId)
    this.of(raw, clientId).add(taken)
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
