import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { TokenBucket } from '../token-bucket.js'
import { readRetryAfterMs } from '../upstreams/health.js'

/** Read to send to varve. */
export interface WarmRequest {
  readonly method: 'GET' | 'POST'
  readonly target: string
  readonly body?: string | undefined
  readonly accept?: string | undefined
}

/** Response of varve. */
export interface ProxyResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

const maxAttempts = 8
const minBackoffMs = 250
// Caps Retry-After, because operators would stop a run that seems stuck.
const maxBackoffMs = 30_000
const responseTimeoutMs = 60_000
// Shows enough of another server's error page to recognise that server.
const excerptBytes = 300
// Statuses that report overload or a missing upstream, and nothing about the read.
const retryableStatuses = new Set([408, 429, 502, 503, 504])

/** Client of a running varve with a rate limit and retries; its signal ends requests that wait to be sent. */
export class WarmClient {
  /** Requests repeated after overload or a connection failure. */
  retries = 0
  readonly #url: URL
  readonly #rate: { readonly interval: number, readonly burst: 1 } | undefined
  readonly #headers: Readonly<Record<string, string>>
  readonly #signal: AbortSignal
  readonly #pool: Pool
  readonly #bucket = new TokenBucket()
  #hasResponded = false

  constructor (
    url: URL,
    connections: number,
    perSecond: number | undefined,
    key: string | undefined,
    signal: AbortSignal
  ) {
    this.#url = url
    this.#rate = perSecond === undefined ? undefined : { interval: 1000 / perSecond, burst: 1 }
    // Gives way to clients (RFC 9218, section 4.1).
    this.#headers = { 'user-agent': 'varve-warm', priority: 'u=7', ...(key !== undefined && { 'x-api-key': key }) }
    this.#signal = signal
    this.#pool = new Pool(url.origin, {
      connections,
      headersTimeout: responseTimeoutMs,
      bodyTimeout: responseTimeoutMs
    })
  }

  /** Resolves with any response; undefined if the run ended before the request was sent. */
  async fetch (request: WarmRequest): Promise<ProxyResponse | undefined> {
    for (let attempt = 1;; attempt++) {
      while (this.#rate !== undefined && !this.#signal.aborted) {
        const waitMs = this.#bucket.take(performance.now(), this.#rate)
        if (waitMs === 0) break
        await this.#pause(waitMs)
      }
      if (this.#signal.aborted) return undefined
      const response = await this.#send(request).catch((error: unknown) => error as Error & { code?: unknown })
      if (!(response instanceof Error)) {
        this.#hasResponded = true
        if (!retryableStatuses.has(response.status)) return response
      }
      if (this.#signal.aborted) return undefined
      if (attempt === maxAttempts || !this.#hasResponded) {
        throw new Error(
          response instanceof Error
            ? `${this.#url.origin} cannot be reached: ${response.message || String(response.code)}; ` +
              'check that varve listens there, or set --url'
            : `${this.#url.origin} answers ${response.status}: ${bodyExcerptOf(response)}`
        )
      }
      this.retries++
      const retryAfter = response instanceof Error ? undefined : headerValueIn(response, 'retry-after')
      const waitMs = Math.max(readRetryAfterMs(retryAfter ?? '0', undefined), minBackoffMs * 2 ** (attempt - 1))
      await this.#pause(Math.min(maxBackoffMs, waitMs))
    }
  }

  /** Cancels requests in flight too. */
  abort (): void {
    this.#pool.destroy().catch(() => {})
  }

  async close (): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close()
  }

  async #send ({ method, target, body, accept = 'application/json' }: WarmRequest): Promise<ProxyResponse> {
    const type = body !== undefined && { 'content-type': 'application/json' }
    const headers = { accept, ...this.#headers, ...type }
    const response = await this.#pool.request({ method, path: target, headers, body: body ?? null })
    return {
      status: response.statusCode,
      headers: response.headers,
      body: Buffer.from(await response.body.arrayBuffer())
    }
  }

  /** Returns early once the run has ended; the caller then sends nothing. */
  async #pause (ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#signal }).catch(() => {})
  }
}

/** Returns the beginning of a body in one line without control characters. */
export function bodyExcerptOf ({ body }: ProxyResponse): string {
  return body.toString('utf8', 0, excerptBytes).replace(/\p{Cc}+/gu, ' ')
}

/** Returns the first value of a response header. */
export function headerValueIn ({ headers }: ProxyResponse, name: string): string | undefined {
  return [headers[name]].flat()[0]
}
