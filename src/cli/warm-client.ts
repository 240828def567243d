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

/** Limits and access of a warm client. */
export interface WarmClientOptions {
  readonly url: URL
  readonly connections: number
  /** Requests per second; undefined means no limit. */
  readonly perSecond: number | undefined
  /** Client API key, if varve requires one. */
  readonly key: string | undefined
  readonly onRetry: () => void
  /** Ends waiting requests; requests in flight finish unless `abort` is called. */
  readonly signal: AbortSignal
}

const maxAttempts = 8
// Fewer attempts before the first response, because the address is probably wrong.
const maxFirstAttempts = 4
const minBackoffMs = 250
// Caps Retry-After, because operators would stop a run that seems stuck.
const maxBackoffMs = 30_000
const responseTimeoutMs = 60_000
// Enough of a foreign error page to recognise its server.
const excerptBytes = 300

// Statuses that report overload or a missing upstream, and nothing about the read.
const retryableStatuses = new Set([408, 429, 502, 503, 504])

/** Client of a running varve with a rate limit and retries. */
export class WarmClient {
  readonly #options: WarmClientOptions
  readonly #pool: Pool
  readonly #bucket = new TokenBucket()
  #hasResponded = false

  constructor (options: WarmClientOptions) {
    this.#options = options
    this.#pool = new Pool(options.url.origin, {
      connections: options.connections,
      headersTimeout: responseTimeoutMs,
      bodyTimeout: responseTimeoutMs
    })
  }

  /** Resolves with any response; undefined if the run ended before the request was sent. */
  async fetch (request: WarmRequest): Promise<ProxyResponse | undefined> {
    const { url, onRetry, signal } = this.#options
    for (let attempt = 1;; attempt++) {
      await this.#waitForRate()
      if (signal.aborted) return undefined
      const response = await this.#send(request).catch((error: unknown) => error as Error & { code?: unknown })
      const isError = response instanceof Error
      if (!isError) this.#hasResponded = true
      if (!isError && !retryableStatuses.has(response.status)) return response
      if (signal.aborted) return undefined
      if (attempt >= (this.#hasResponded ? maxAttempts : maxFirstAttempts)) {
        throw new Error(
          isError
            ? `${url.origin} cannot be reached: ${response.message || String(response.code)}; ` +
              'check that varve listens there, or set --url'
            : `${url.origin} answers ${response.status}: ${bodyExcerptOf(response)}`
        )
      }
      onRetry()
      const retryAfterMs = isError ? 0 : readRetryAfterMs(headerValueIn(response, 'retry-after') ?? '0', undefined)
      await this.#pause(Math.min(maxBackoffMs, Math.max(retryAfterMs, minBackoffMs * 2 ** (attempt - 1))))
    }
  }

  /** Cancels requests in flight too. */
  abort (): void {
    this.#pool.destroy().catch(() => {})
  }

  async close (): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close()
  }

  async #send ({ method, target, body, accept }: WarmRequest): Promise<ProxyResponse> {
    const { key } = this.#options
    const { statusCode: status, headers, body: stream } = await this.#pool.request({
      method,
      path: target,
      headers: {
        accept: accept ?? 'application/json',
        'user-agent': 'varve-warm',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'x-api-key': key })
      },
      ...(body !== undefined && { body })
    })
    return { status, headers, body: Buffer.from(await stream.arrayBuffer()) }
  }

  /** Takes a token of the rate that all connections share. */
  async #waitForRate (): Promise<void> {
    const { perSecond, signal } = this.#options
    if (perSecond === undefined) return
    const rate = { interval: 1000 / perSecond, burst: 1 }
    for (;;) {
      const waitMs = this.#bucket.take(performance.now(), rate)
      if (waitMs === 0 || signal.aborted) return
      await this.#pause(waitMs)
    }
  }

  async #pause (ms: number): Promise<void> {
    // An aborted pause returns early, and the caller sends nothing.
    await pause(ms, undefined, { signal: this.#options.signal }).catch(() => {})
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
