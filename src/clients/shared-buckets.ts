import { type RedisLink } from '../redis/link.js'
import { type Allowance, type Buckets } from './buckets.js'

// The same as LocalBuckets does, in one step at the server and by its clock, since those of replicas need not agree. A
// time further ahead than a burst is long was written before that clock was set back, or for a larger burst, and is as
// good as none.
const takeOne = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local every, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = tonumber(redis.call('GET', KEYS[1]) or '') or now
if not (full >= now and full <= now + every * burst) then full = now end
local wait = full + every - now - every * burst
if wait > 0.001 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full + every), 'PX', math.ceil(full + every - now))
return 0
`

const giveOneBack = `
local full = tonumber(redis.call('GET', KEYS[1]) or '')
if not full then return 0 end
local time = redis.call('TIME')
local left = full - tonumber(ARGV[1]) - (time[1] * 1000 + time[2] / 1000)
if left <= 0 then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], string.format('%.3f', full - tonumber(ARGV[1])), 'PX', math.ceil(left))
return 1
`

// As many as are counted alone (law 10).
const mostRefused = 50_000

/**
 * Counts what is taken from all replicas together, in Redis; by itself while Redis does not answer, so that a limit
 * holds for each replica then (law 6).
 */
export class SharedBuckets implements Buckets {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #alone: Buckets
  readonly #now: () => number
  // Until when a client has been refused: Redis need not hear of each request of a flood.
  readonly #refusedUntilMs = new Map<string, number>()
  #refusal: string | undefined

  constructor (link: RedisLink, prefix: string, alone: Buckets, now: () => number) {
    this.#link = link
    this.#prefix = `${prefix}taken:`
    this.#alone = alone
    this.#now = now
  }

  /** Why Redis does not count, though it answers. */
  get refusal (): string | undefined {
    return this.#refusal
  }

  async take (subject: string, allowance: Allowance): Promise<number> {
    const refusedForMs = (this.#refusedUntilMs.get(subject) ?? 0) - this.#now()
    // What was refused for longer was so by another allowance.
    if (refusedForMs > 0 && refusedForMs <= 1000 / allowance.perSecond) return refusedForMs
    this.#refusedUntilMs.delete(subject)
    const waitMs = await this.#takeThere(subject, allowance)
    if (waitMs === undefined) return await this.#alone.take(subject, allowance)
    if (waitMs > 0) this.#refuse(subject, waitMs)
    return waitMs
  }

  giveBack (subject: string, allowance: Allowance): void {
    this.#refusedUntilMs.delete(subject)
    this.#link.ask(
      'limit',
      async client => await client.eval(giveOneBack, 1, this.#prefix + subject, 1000 / allowance.perSecond)
    )
      // It was taken here if Redis was away then, too.
      .catch(() => {
        this.#alone.giveBack(subject, allowance)
      })
  }

  /** Undefined where Redis does not say. */
  async #takeThere (subject: string, { perSecond, burst }: Allowance): Promise<number | undefined> {
    try {
      const waitMs = await this.#link.ask(
        'limit',
        async client => await client.eval(takeOne, 1, this.#prefix + subject, 1000 / perSecond, burst)
      )
      this.#refusal = undefined
      // What cannot be is no word of this script's.
      return typeof waitMs === 'number' && waitMs >= 0 && waitMs <= Math.ceil(1000 / perSecond) ? waitMs : undefined
    } catch (error) {
      // Counted where Redis is asked; what it says of itself lasts until somebody changes it.
      if (error instanceof Error && error.name === 'ReplyError') this.#refusal = error.message
      return undefined
    }
  }

  #refuse (subject: string, waitMs: number): void {
    this.#refusedUntilMs.set(subject, this.#now() + waitMs)
    const [oldest] = this.#refusedUntilMs.keys()
    if (this.#refusedUntilMs.size > mostRefused && oldest !== undefined) this.#refusedUntilMs.delete(oldest)
  }
}
