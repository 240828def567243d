import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { restOf } from '../../upstreams/retry-after.js'
import { beginningOf, type Came, headerOf } from './came.js'
import { type Tally } from './tally.js'

/** One read as it is sent. */
export interface Wanted {
  readonly method: 'GET' | 'POST'
  readonly target: string
  readonly body?: string | undefined
  readonly accept?: string | undefined
}

/** How a running varve is asked. */
export interface AskingOptions {
  readonly url: URL
  readonly connections: number
  /** Undefined: as many as it answers. */
  readonly perSecond: number | undefined
  /** Sent as a client's key, where it is needed. */
  readonly key: string | undefined
  readonly tally: Tally
  /** A clock that never goes back. */
  readonly now: () => number
  /** Ends what waits; what is under way comes to its end, unless it is cut. */
  readonly signal: AbortSignal
}

/** It could not be asked, however often it was tried. */
export class OutOfReach extends Error {}

const tries = 8
// Where nobody has ever answered the address is likely wrong, and a person waits to be told.
const firstTries = 4
const firstPauseMs = 250
// A node that asks for more is tried again sooner, since a run that seems to hang is stopped by hand.
const longestPauseMs = 30_000
const answerMs = 60_000

// Nothing is wrong with the read: there was no time for it, or nobody to answer.
const passing = new Set([408, 429, 502, 503, 504])

/** Asks a running varve, no more often than is wished, and again where it had no time. */
export class Asking {
  readonly #options: AskingOptions
  readonly #pool: Pool
  #nextAt = -Infinity
  #isAnswered = false

  constructor (options: AskingOptions) {
    this.#options = options
    this.#pool = new Pool(options.url.origin, {
      connections: options.connections,
      headersTimeout: answerMs,
      bodyTimeout: answerMs
    })
  }

  /** The answer, whatever its status; undefined where the run was ended before it was asked. */
  async ask (wanted: Wanted): Promise<Came | undefined> {
    const { tally, signal } = this.#options
    for (let tried = 1;; tried++) {
      await this.#turn()
      if (signal.aborted) return undefined
      const came = await this.#once(wanted).catch((error: unknown) => error as Error)
      if (!(came instanceof Error)) this.#isAnswered = true
      if (!(came instanceof Error) && !passing.has(came.status)) return came
      if (signal.aborted) return undefined
      if (tried >= (this.#isAnswered ? tries : firstTries)) {
        throw new OutOfReach(`${this.#options.url.origin} ${
          came instanceof Error
            ? `cannot be asked: ${reasonOf(came)}; does varve listen there? --url names another address`
            : `answers ${came.status}: ${beginningOf(came)}`
        }`)
      }
      tally.retries++
      const asked = came instanceof Error ? 0 : restOf(headerOf(came, 'retry-after') ?? '0', undefined, 0)
      await this.#pause(Math.min(longestPauseMs, Math.max(asked, firstPauseMs * 2 ** (tried - 1))))
    }
  }

  /** Ends what is under way too, as where nobody waits for it any more. */
  cut (): void {
    this.#pool.destroy().catch(() => {})
  }

  async close (): Promise<void> {
    if (!this.#pool.destroyed) await this.#pool.close()
  }

  async #once ({ method, target, body, accept }: Wanted): Promise<Came> {
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

  /** Each has its place in a row, so that a rate holds however many ask at once. */
  async #turn (): Promise<void> {
    const { perSecond, now } = this.#options
    if (perSecond === undefined) return
    const at = Math.max(now(), this.#nextAt)
    this.#nextAt = at + 1000 / perSecond
    if (at > now()) await this.#pause(at - now())
  }

  async #pause (ms: number): Promise<void> {
    // Ended while it waits, it asks for nothing more.
    await pause(ms, undefined, { signal: this.#options.signal }).catch(() => {})
  }
}

function reasonOf (error: Error & { code?: unknown }): string {
  return error.message === '' ? String(error.code) : error.message
}
