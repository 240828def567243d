import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { isReadByPost } from '../../api/request-targets.js'
import { type HeaderLines } from './recording-format.js'
import { endToEndHeaders, firstHeaderValue } from './verbatim-head.js'

/** Client request in the form that is forwarded. */
export interface RelayedRequest {
  readonly method: string
  readonly target: string
  readonly headers: HeaderLines
  readonly body: Buffer
}

/** Address and headers of the recorded upstream. */
export interface RelayClientOptions {
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

const maxConnections = 256
// Full nodes accept heads of this size.
const maxHeadBytes = 262_144

/** Client of the recorded upstream. Uses `node:http`, which preserves the order and the case of headers. */
export class RelayClient {
  readonly #url: URL
  readonly #headers: Readonly<Record<string, string>>
  readonly #agent: HttpAgent

  constructor ({ url, headers }: RelayClientOptions) {
    this.#url = new URL(url)
    this.#headers = headers
    const options = { keepAlive: true, maxSockets: maxConnections }
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
  }

  /** Resolves with the response head while the body streams; rejects on connection errors and on abort. */
  async fetch (forwarded: RelayedRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (let tries = 1;; tries++) {
      const attempt = this.#fetchOnce(forwarded, signal)
      try {
        return await attempt.response
      } catch (error) {
        // The upstream may close an idle keep-alive connection at any time, which is no failure of the upstream.
        if (signal.aborted || tries > 2 || !attempt.isReused() || !mayBeRepeated(forwarded)) throw error
      }
    }
  }

  close (): void {
    this.#agent.destroy()
  }

  #fetchOnce (
    { method, target, headers, body }: RelayedRequest,
    signal: AbortSignal
  ): { response: Promise<IncomingMessage>, isReused: () => boolean } {
    const { protocol, hostname, port, pathname } = this.#url
    const outgoing = (protocol === 'https:' ? requestHttps : requestHttp)({
      agent: this.#agent,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      method,
      path: pathname.replace(/\/+$/, '') + target,
      headers: this.#headersFor(method, headers).flat(),
      maxHeaderSize: maxHeadBytes,
      signal
    })
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.on('response', came => {
        // Node.js takes a reset for the end of a body that ends with its connection.
        outgoing.on('error', error => {
          came.destroy(error)
        })
        resolve(came)
      })
      outgoing.on('error', reject)
    })
    outgoing.end(body)
    return { response, isReused: () => outgoing.reusedSocket }
  }

  #headersFor (method: string, lines: HeaderLines): HeaderLines {
    const own = Object.entries(this.#headers)
    const replaced = new Set(['host', 'expect', ...own.map(([name]) => name.toLowerCase())])
    const isChunked = firstHeaderValue(lines, 'transfer-encoding') !== undefined
    const hasLength = firstHeaderValue(lines, 'content-length') !== undefined
    return [
      ['host', this.#url.host],
      ...endToEndHeaders(lines).filter(([name]) => !replaced.has(name.toLowerCase())),
      ...own,
      ...(isChunked ? [['transfer-encoding', 'chunked'] as const] : []),
      // Node.js would send a chunked body if no length is given.
      ...(!isChunked && !hasLength && mayHaveBody(method) ? [['content-length', '0'] as const] : [])
    ]
  }
}

function mayBeRepeated ({ method, target }: RelayedRequest): boolean {
  return method === 'GET' || method === 'HEAD' || isReadByPost(target)
}

function mayHaveBody (method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}
