import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { type Lines } from './form.js'
import { endToEnd, valueOf } from './wire.js'

/** A question as it is passed on. */
export interface Passed {
  readonly method: string
  readonly target: string
  readonly lines: Lines
  readonly body: Buffer
}

/** How the node is reached. */
export interface UpstreamOptions {
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

const mostConnections = 256
// As much as nodes have room for.
const longestHead = 262_144
// What may be asked twice: a POST of any other route may be a transaction.
const reads = /\/v1\/(?:view$|view\?|tables\/)/

/**
 * The node that is recorded. Node's own client, not undici's: every line has to leave as it came and come as it was
 * sent, in its order and spelling, which no library would keep.
 */
export class Upstream {
  readonly #url: URL
  readonly #headers: Readonly<Record<string, string>>
  readonly #agent: HttpAgent

  constructor ({ url, headers }: UpstreamOptions) {
    this.#url = new URL(url)
    this.#headers = headers
    const options = { keepAlive: true, maxSockets: mostConnections }
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options)
  }

  /**
   * The answer's head, with the body to come; fails with the system's word where none came, and when it is taken back.
   */
  async ask (passed: Passed, signal: AbortSignal): Promise<IncomingMessage> {
    for (let tries = 1;; tries++) {
      const asked = this.#askOnce(passed, signal)
      try {
        return await asked.answer
      } catch (error) {
        // A kept connection that the node has closed meanwhile says nothing of the node.
        if (signal.aborted || tries > 2 || !asked.isReused() || !mayBeRepeated(passed)) throw error
      }
    }
  }

  close (): void {
    this.#agent.destroy()
  }

  #askOnce (
    { method, target, lines, body }: Passed,
    signal: AbortSignal
  ): { answer: Promise<IncomingMessage>, isReused: () => boolean } {
    const { protocol, hostname, port, pathname } = this.#url
    const asking = (protocol === 'https:' ? requestHttps : requestHttp)({
      agent: this.#agent,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      method,
      path: pathname.replace(/\/+$/, '') + target,
      headers: this.#linesFor(method, lines).flat(),
      maxHeaderSize: longestHead,
      signal
    })
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      asking.on('response', came => {
        // Of what only the end of its connection ends, Node takes a reset for the end.
        asking.on('error', error => {
          came.destroy(error)
        })
        resolve(came)
      })
      asking.on('error', reject)
    })
    asking.end(body)
    return { answer, isReused: () => asking.reusedSocket }
  }

  #linesFor (method: string, lines: Lines): Lines {
    const own = Object.entries(this.#headers)
    const replaced = new Set(['host', 'expect', ...own.map(([name]) => name.toLowerCase())])
    const isChunked = valueOf(lines, 'transfer-encoding') !== undefined
    const hasLength = valueOf(lines, 'content-length') !== undefined
    return [
      ['host', this.#url.host],
      ...endToEnd(lines).filter(([name]) => !replaced.has(name.toLowerCase())),
      ...own,
      ...(isChunked ? [['transfer-encoding', 'chunked'] as const] : []),
      // Node would have a body of chunks follow where nothing is said of one.
      ...(!isChunked && !hasLength && mayHaveBody(method) ? [['content-length', '0'] as const] : [])
    ]
  }
}

function mayBeRepeated ({ method, target }: Passed): boolean {
  return method === 'GET' || method === 'HEAD' || reads.test(target)
}

function mayHaveBody (method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}
