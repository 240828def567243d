import { type RedisLink } from '../redis/link.js'
import { type ClientRateLimit, type TokenBuckets } from './token-buckets.js'

// Mirrors LocalBuckets atomically on the server's clock, because clocks of replicas differ. Ignores a time beyond a
// burst, which was stored before a change of clock or limit.
const takeScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local every, burst, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or '') or now
if not (full >= now and full <= now + every * burst) then full = now end
local taken = every * count
local wait = full + taken - now - every * burst
if wait > 0.001 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full + taken), 'PX', math.ceil(full + taken - now))
return 0
`

const levelScript = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local every, burst, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or '') or now
if not (full >= now and full <= now + every * burst) then full = now end
local lowered = now + every * (burst - most)
if lowered > full then
  full = lowered
  redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
end
return math.floor(burst - (full - now) / every + 0.001)
`

const refundScript = `
local full = tonumber(redis.call('GET', KEYS[1]) or '')
if not full then return 0 end
local time = redis.call('TIME')
local left = full - tonumber(ARGV[1]) - (time[1] * 1000 + time[2] / 1000)
if left <= 0 then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], string.format('%.3f', full - tonumber(ARGV[1])), 'PX', math.ceil(left))
return 1
`

// Same limit as in LocalBuckets (law 10: nothing grows without bound).
const maxLimited = 50_000

/**
 * Token buckets shared by all replicas through Redis; while Redis is down each replica limits by itself (law 6: the
 * cache can only help).
 */
export class RedisBuckets implements TokenBuckets {
  readonly #link: RedisLink
  readonly #prefix: string
  readonly #fallback: TokenBuckets
  readonly #now: () => number
  // Caches rejections, so that a flood costs Redis few commands.
  readonly #limitedUntilMs = new Map<string, number>()

  constructor (link: RedisLink, prefix: string, fallback: TokenBuckets, now: () => number) {
    this.#link = link
    this.#prefix = `${prefix}taken:`
    this.#fallback = fallback
    this.#now = now
  }

  async take (clientId: string, allowance: ClientRateLimit, count = 1): Promise<number> {
    const limitedForMs = (this.#limitedUntilMs.get(clientId) ?? 0) - this.#now()
    // Ignores a longer wait than the tokens take: it came from another limit.
    if (limitedForMs > 0 && limitedForMs <= 1000 * count / allowance.perSecond) return limitedForMs
    this.#limitedUntilMs.delete(clientId)
    const waitMs = await this.#takeFromRedis(clientId, allowance, count)
    if (waitMs === undefined) return await this.#fallback.take(clientId, allowance, count)
    if (waitMs > 0) this.#rememberLimited(clientId, waitMs)
    return waitMs
  }

  async level (clientId: string, allowance: ClientRateLimit, atMost = allowance.burst): Promise<number> {
    const { perSecond, burst } = allowance
    const level = await this.#runScript(levelScript, clientId, 1000 / perSecond, burst, atMost)
    return level !== undefined && level >= 0 && level <= burst
      ? level
      : await this.#fallback.level(clientId, allowance, atMost)
  }

  refund (clientId: string, allowance: ClientRateLimit): void {
    this.#limitedUntilMs.delete(clientId)
    this.#link.runScript('limit', refundScript, [this.#prefix + clientId], [1000 / allowance.perSecond])
      // Refunds in this process, because the token was taken here if Redis was down before too.
      .catch(() => this.#fallback.refund(clientId, allowance))
  }

  /** Undefined if Redis gives no valid response. */
  async #takeFromRedis (
    clientId: string,
    { perSecond, burst }: ClientRateLimit,
    count: number
  ): Promise<number | undefined> {
    const interval = 1000 / perSecond
    const waitMs = await this.#runScript(takeScript, clientId, interval, burst, count)
    // Rejects values that this script cannot return.
    return waitMs !== undefined && waitMs >= 0 && waitMs <= Math.ceil(count * interval) ? waitMs : undefined
  }

  /** Undefined if Redis gives no number. */
  async #runScript (script: string, clientId: string, ...values: number[]): Promise<number | undefined> {
    // Ignores the failure, because the link counts it.
    const result = await this.#link.runScript('limit', script, [this.#prefix + clientId], values).catch(() => undefined)
    return typeof result === 'number' ? result : undefined
  }

  #rememberLimited (clientId: string, waitMs: number): void {
    this.#limitedUntilMs.set(clientId, this.#now() + waitMs)
    const [oldest] = this.#limitedUntilMs.keys()
    if (this.#limitedUntilMs.size > maxLimited && oldest !== undefined) this.#limitedUntilMs.delete(oldest)
  }
}
