import { type RedisLink } from '../redis/link.js'
import { type Allowance, type Buckets } from './buckets.js'

// The same as LocalBuckets does, in one step at the server and by its clock, since those of replicas need not agree. A time further ahead than a burst is long
// was written before that clock was set back, or for a larger burst, and is as good as none.
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

/** Counts what is taken from all replicas together, in Redis; by itself while Redis does not answer, so that a limit holds for each replica then (law 6). */
export class SharedBuckets implements Buckets {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #alone: Buckets

  constructor (link: RedisLink, prefix: string, alone: Buckets) {
    this.#link = link
    this.#prefix = `${prefix}taken:`
    this.#alone = alone
  }

  async take (subject: string, allowance: Allowance): Promise<number> {
    const { perSecond, burst } = allowance
    try {
      // A number, or what stands there is no word of ours.
      const waitMs = await this.#link.ask('limit', async client => await client.eval(takeOne, 1, this.#prefix + subject, 1000 / perSecond, burst))
      if (typeof waitMs === 'number') return waitMs
    } catch {
      // Counted where Redis is asked.
    }
    return await this.#alone.take(subject, allowance)
  }
}
