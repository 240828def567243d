import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { type RedisLink } from '../../redis/link.js'
import { type RedisOperation } from '../../redis/operations.js'
import { type RedisClient } from '../../redis/place.js'

/** How Redis is asked by a command that nobody waits for. */
export interface PatienceOptions {
  readonly link: RedisLink
  readonly signal: AbortSignal
  readonly now: () => number
  /** Entries a second at most; undefined: as many as Redis has time for. */
  readonly perSecond: number | undefined
  /** How long is waited before each new attempt. */
  readonly pausesMs?: readonly number[]
}

/** It was ended by a signal. */
export class Ended extends Error {}

const waits = [250, 500, 1000, 2000, 4000]
// What is full makes no room for what waits.
const triesWhereFull = 2
// What asking the same once more does not change.
const settled = /^(?:NOAUTH|WRONGPASS|NOPERM|WRONGTYPE|ERR)\b/

/** Asks Redis again where it is away for a while, and leaves it as much time for others as it takes for this. */
export class Patience {
  readonly #options: PatienceOptions
  #nextAt = -Infinity

  constructor (options: PatienceOptions) {
    this.#options = options
    // As many may wait at once as are asked for at once.
    setMaxListeners(0, options.signal)
  }

  /** Fails with a sentence when it has tried for long enough. */
  async ask<T> (operation: RedisOperation, work: (client: RedisClient) => Promise<T>): Promise<T> {
    const { link, signal, pausesMs = waits } = this.#options
    for (let tried = 0;; tried++) {
      if (signal.aborted) throw new Ended('ended')
      try {
        return await link.ask(operation, work)
      } catch (error) {
        const { message } = error as Error
        const pauseMs = pausesMs[tried]
        if (pauseMs === undefined || settled.test(message) || (message.startsWith('OOM') && tried === triesWhereFull)) {
          throw new Error(sentenceOf(message, link), { cause: error })
        }
        await pause(pauseMs, undefined, { signal }).catch(() => {})
      }
    }
  }

  /** Rests after some entries for as long as they took, so that Redis is asked for half of the time at most. */
  async rest (entries: number, tookMs: number): Promise<void> {
    const { signal, now, perSecond } = this.#options
    this.#nextAt = Math.max(now(), this.#nextAt) + (perSecond === undefined ? 0 : entries * 1000 / perSecond)
    await pause(Math.max(tookMs, this.#nextAt - now()), undefined, { signal }).catch(() => {})
  }
}

function sentenceOf (message: string, link: RedisLink): string {
  if (message.startsWith('OOM')) {
    return `Redis is full: ${message}; give it more room, or the maxmemory-policy allkeys-lru`
  }
  if (settled.test(message) || message.startsWith('READONLY')) return `Redis refuses: ${message}`
  return link.isUp ? `Redis does not answer: ${message}` : `Redis ${link.fault}: ${link.lastError}`
}
