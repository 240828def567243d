import { headerOf, type UpstreamResponse } from '../api/upstream-response.js'

// Limits the window of latencies; below `minSamples`, a few slow reads would distort the percentile.
const maxSamples = 500
const minSamples = 50
// Computes the percentile only after this many samples: sorting costs much beside a read, and one sample changes
// little.
const recomputeEvery = 25

// Backoff after a 429 without a readable Retry-After.
const defaultBackoffMs = 1000
const circuitOpensAfterFailures = 5
// Time after which an upstream gets reads again that it said it does not serve.
const disabledMs = 60_000
// Smoothing factor of the moving average, in which about the last dozen latencies count.
const latencyWeight = 0.15
// Caps Retry-After, so that every upstream is tried again within an hour.
const maxBackoffMs = 3_600_000

/** Recent results of an upstream: decides on its circuit, its backoff and its expected latency. */
export class Health {
  /** Latencies of buffered reads; probes and streamed requests do not count. */
  readonly readLatency = new LatencyWindow()
  /** Requests without a result yet. */
  inFlight = 0
  /** Moving average; undefined before the first response. */
  latencyMs: number | undefined
  /** Last failure since the last success. */
  lastFailure: string | undefined
  readonly #now: () => number
  #failures = 0
  // True after a failed probe or connection, until a success.
  #isUnreachable = false
  #hasResponded = false
  #backsOffUntilMs = -Infinity
  // Times by kind of read; few kinds can be switched off, each in two representations.
  readonly #disabledUntilMs = new Map<string, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  /** True after five failures in a row: only polls and reads without another upstream go there. */
  get isCircuitOpen (): boolean {
    return this.#failures >= circuitOpensAfterFailures
  }

  /** State as requests and probes show it; `unknown` before the first response or failure. */
  get state (): 'unknown' | 'up' | 'backing_off' | 'down' {
    if (this.#isUnreachable || this.isCircuitOpen) return 'down'
    if (!this.#hasResponded) return this.lastFailure === undefined ? 'unknown' : 'down'
    return this.isBackingOff ? 'backing_off' : 'up'
  }

  /** True after one failure, until a second one confirms it or a success ends it. */
  get hasFailedOnce (): boolean {
    return this.#hasResponded && this.#failures === 1
  }

  /** True while the upstream limits our rate. */
  get isBackingOff (): boolean {
    return this.#now() < this.#backsOffUntilMs
  }

  /** True if the upstream ranks before unhealthy ones. */
  get isHealthy (): boolean {
    return !this.isBackingOff && !this.isCircuitOpen
  }

  /** Estimates the time for one more request; an unmeasured upstream ranks first. */
  get load (): number {
    return (this.latencyMs ?? 0) * (this.inFlight + 1)
  }

  recordSuccess (): void {
    if (this.isCircuitOpen) this.latencyMs = undefined
    this.#failures = 0
    this.#isUnreachable = false
    this.#hasResponded = true
    this.lastFailure = undefined
  }

  /** Records a success in which the upstream says that it does not serve such reads. */
  recordDisabled (reads: string): void {
    this.recordSuccess()
    this.#disabledUntilMs.set(reads, this.#now() + disabledMs)
  }

  /** True if the upstream said, within the last minute, that it does not serve such reads. */
  isDisabled (reads: string): boolean {
    return this.#disabledUntilMs.size > 0 && this.#now() < (this.#disabledUntilMs.get(reads) ?? -Infinity)
  }

  /** Records a success of a probe, unless only reads have failed: a good probe does not prove that reads work again. */
  recordProbeSuccess (): void {
    if (this.#isUnreachable || this.#failures === 0) this.recordSuccess()
  }

  /** Raises the average by a wait that ended without a response, whose true latency would be longer. */
  recordMinLatency (waitedMs: number, isRead = false): void {
    if (waitedMs > (this.latencyMs ?? 0)) this.recordLatency(waitedMs, isRead)
  }

  /**
   * Records the latency of a response that is no upstream fault: errors come fast and would make a failing upstream
   * look quick.
   */
  recordLatency (tookMs: number, isRead = false): void {
    if (isRead) this.readLatency.add(tookMs)
    this.latencyMs = this.latencyMs === undefined
      ? tookMs
      : this.latencyMs + (tookMs - this.latencyMs) * latencyWeight
  }

  /** Records a failed request; `isUnreachable` marks a fault of the whole upstream. */
  recordFailure (reason: string, isUnreachable = false): void {
    this.#failures++
    this.#isUnreachable ||= isUnreachable
    this.lastFailure = reason
  }

  /** Backs off after a 429, which is not a failure. */
  backOff (forMs: number): void {
    this.#hasResponded = true
    this.#backsOffUntilMs = Math.max(this.#backsOffUntilMs, this.#now() + Math.min(forMs, maxBackoffMs))
  }
}

/** Sliding window of read latencies. */
export class LatencyWindow {
  readonly #samplesMs = new Float64Array(maxSamples)
  #count = 0
  #p95: number | undefined
  #countAtP95 = 0

  add (tookMs: number): void {
    this.#samplesMs[this.#count++ % maxSamples] = tookMs
  }

  /** 95th percentile; undefined below 50 samples. */
  get p95 (): number | undefined {
    if (this.#count < minSamples) return undefined
    if (this.#p95 === undefined || this.#count - this.#countAtP95 >= recomputeEvery) {
      const sorted = this.#samplesMs.slice(0, this.#count).sort()
      this.#p95 = sorted[Math.ceil(sorted.length * 0.95) - 1]
      this.#countAtP95 = this.#count
    }
    return this.#p95
  }
}

/**
 * Reads Retry-After in seconds, or as a date relative to the response's Date because clocks differ (RFC 9110, section
 * 10.2.3); default 1 s.
 */
export function readRetryAfterMs (retryAfter: string | undefined, date: string | undefined): number {
  const text = retryAfter?.trim() ?? ''
  if (/^[0-9]{1,9}$/.test(text)) return Number(text) * 1000
  const [untilMs, sentMs] = [readHttpDateMs(text), readHttpDateMs(date)]
  return untilMs === undefined || sentMs === undefined ? defaultBackoffMs : Math.max(0, untilMs - sentMs)
}

// "RateLimit: limit=100, remaining=7", or "default";r=7 as in later drafts of the header.
const rateLimitRest = /(?:\bremaining=|;\s*r=)([0-9]{1,15})/
const bodyRest = /"[a-z_-]*remaining(?:_units)?"\s*:\s*"?([0-9]{1,15})/i

/**
 * Reads the units that a 429 says are left, from a header or the body. Returns 0 if the body mentions units without a
 * number, undefined if it mentions none.
 */
export function readUnitsLeft (response: UpstreamResponse): number | undefined {
  const plain = ['ratelimit-remaining', 'x-ratelimit-remaining'].map(name => headerOf(response, name))
    .find(text => text !== undefined && /^[0-9]{1,15}$/.test(text))
  const text = response.body.toString('latin1', 0, 4096)
  const rest = plain ?? rateLimitRest.exec(headerOf(response, 'ratelimit') ?? '')?.[1] ?? bodyRest.exec(text)?.[1]
  if (rest !== undefined) return Number(rest)
  return /compute units/i.test(text) ? 0 : undefined
}

// Requires a day name, since Date.parse accepts almost any text.
function readHttpDateMs (text: string | undefined): number | undefined {
  const ms = text !== undefined && /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : NaN
  return Number.isNaN(ms) ? undefined : ms
}
