import { type Server } from 'node:http'
import { type Socket } from 'node:net'
import { type ParsedRequest } from '../proxy/parsed-request.js'
import { type ClientResponse } from '../proxy/response-builder.js'
import { HitWriter, maxHitBodyBytes } from './hit-writer.js'
import { type HttpExchange } from './http-exchange.js'
import { isRepeatable, isShort, type KnownRequest, type KnownRequestCache, maxKnownBytes } from './known-request.js'
import { respondFromMemory } from './respond-from-memory.js'
import { type BypassedConnection, bypassedConnectionOf, idleChunkEvent } from './parser-bypass.js'
import { responsePreferencesOf } from './response-preferences.js'
import { type ListenerContext, perRequestHeaders, recordResponse } from './send-response.js'

/** Serves hits of known bytes before Node parses them; everything else goes to Node untouched. */
export class UnparsedHits {
  readonly #context: ListenerContext
  readonly #cache: KnownRequestCache
  readonly #writer: HitWriter

  constructor (context: ListenerContext, cache: KnownRequestCache) {
    this.#context = context
    this.#cache = cache
    this.#writer = new HitWriter(context.clients)
  }

  install (server: Server): void {
    server.on(idleChunkEvent, (connection: BypassedConnection, chunk: Buffer) => {
      connection.isTaken = this.#tryServe(connection.socket, chunk)
    })
  }

  /** Remembers the bytes of a request that memory answered, if it is all that its chunk holds. */
  remember (exchange: HttpExchange, parsed: ParsedRequest, response: ClientResponse): void {
    const connection = bypassedConnectionOf(exchange.request.socket)
    if (connection === undefined || !isRepeatable(exchange) || !canWrite(response)) return
    connection.whenWhole(exchange.request, chunk => {
      if (!isShort(chunk, exchange)) return
      const { request: { headers }, method, url } = exchange
      const preferences = responsePreferencesOf(headers)
      this.#cache.put(keyOf(chunk), { parsed, method, url, preferences, origin: headers.origin })
    })
  }

  #tryServe (socket: Socket, chunk: Buffer): boolean {
    const context = this.#context
    // Drained connections close with their next response, which Node does.
    if (chunk.length > maxKnownBytes || context.drain.isDraining) return false
    const key = keyOf(chunk)
    const known = this.#cache.get(key)
    if (known === undefined) return false
    const receivedAtMs = context.proxy.now()
    const found = this.#respond(known)
    if (found === undefined) return false
    const { endpoint, outcome, response } = found
    if (!canWrite(response)) {
      this.#cache.delete(key)
      return false
    }
    const { method, url, origin } = known
    const tookMs = context.proxy.now() - receivedAtMs
    const id = context.requestIds.next()
    this.#writer.write(socket, method, response, perRequestHeaders(context, method, origin), id)
    const recorded = { method, url, client: undefined, tookMs, id, traceId: undefined }
    recordResponse(context, recorded, endpoint, outcome, response)
    return true
  }

  #respond ({ parsed, preferences }: KnownRequest): ReturnType<typeof respondFromMemory> {
    try {
      return respondFromMemory(this.#context, parsed, preferences)
    } catch {
      // Leaves failures to the router, which reports them.
      return undefined
    }
  }
}

function keyOf (chunk: Buffer): string {
  return chunk.toString('latin1')
}

function canWrite ({ headerText, rest, body }: ClientResponse): boolean {
  return headerText !== undefined && rest === undefined && (body?.length ?? 0) <= maxHitBodyBytes
}
