import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { TokenBucket, type TokenRate } from '../token-bucket.js'

/**
 * Closed list of places that a token of an upstream's rate comes from: the bucket of all processes, or this process's
 * share.
 */
export const tokenSources = ['all', 'share'] as const

/** Place that a token comes from. */
export type TokenSource = typeof tokenSources[number]

/** Limits of upstreams that processes share. */
export interface SharedLimits {
  /**
   * Buckets of all processes, whose methods reject while they cannot be reached; undefined for a process without peers.
   */
  readonly buckets: Pick<TokenBuckets, 'take' | 'level'> | undefined
  /** Processes that share the rate of an upstream, as last known. */
  readonly processes: () => number
  /** Hosts that share the slots of an upstream, as last known. */
  readonly hosts: () => number
}

/** Tokens that an upstream grants, and how one process takes them. */
export interface GrantedRate extends ClientRateLimit {
  /** Most tokens that are taken at once. */
  readonly batch: number
  /** Time within which a token is used or lost, so that no process can save tokens. */
  readonly lifetimeMs: number
}

/** Compute units that an upstream grants in any window, and what a request costs, by endpoint. */
export interface UnitBudget {
  readonly units: number
  readonly windowSeconds: number
  readonly costs: Readonly<Partial<Record<string, number>>>
}

/** Parts that the tokens of one upstream need. */
export interface SharedRateOptions {
  /** Name of the bucket of all processes. */
  readonly bucket: string
  readonly rate: GrantedRate
  readonly buckets: Pick<TokenBuckets, 'take' | 'level'>
  readonly processes: () => number
  readonly now: () => number
  readonly taken: (source: TokenSource, count: number) => void
  /** Runs when tokens have come, or may be asked for again. */
  readonly onChange: () => void
}

// Tokens of this time are taken as one batch, so a busy process asks 20 times a second.
const batchSeconds = 0.05
// Tokens of this time are saved while no process takes any.
const burstSeconds = 0.1
// Delays work that can wait for this time after the bucket had no token.
const scarceForMs = 1000
// Time between two looks at what other processes took.
const lookEveryMs = 1000
/** Part of the units of a window that may be spent at once; the others come back evenly. */
export const unitsAtOnce = 0.1

/** Tokens of requests in any second. */
export function requestRateOf (perSecond: number): GrantedRate {
  return {
    perSecond,
    burst: Math.max(1, Math.floor(perSecond * burstSeconds)),
    batch: Math.max(1, Math.floor(perSecond * batchSeconds)),
    lifetimeMs: 100
  }
}

/**
 * Tokens of compute units. A bucket holds so few that its tokens, with those that come back in a window, never exceed
 * the units of a window, wherever it begins.
 */
export function unitRateOf ({ units, windowSeconds, costs }: UnitBudget): GrantedRate {
  const burst = Math.max(1, Math.floor(units * unitsAtOnce))
  const lifetimeMs = 1000
  const perSecond = (units - burst) / (windowSeconds + lifetimeMs / 1000)
  const largest = Math.max(1, ...Object.values(costs).map(cost => cost ?? 1))
  return { perSecond, burst, batch: Math.max(largest, Math.floor(perSecond * batchSeconds)), lifetimeMs }
}

/** Units that a request of an endpoint costs. */
export function unitCostOf (budget: UnitBudget | null | undefined, endpoint: string): number {
  return budget?.costs[endpoint] ?? budget?.costs['default'] ?? 1
}

/**
 * Tokens of an upstream's rate that this process has taken, in batches, from the bucket of all processes. While the
 * bucket cannot be reached, the process takes from its own share of the rate (law 6: the cache can only help).
 */
export class SharedRate {
  readonly #options: SharedRateOptions
  readonly #share = new TokenBucket()
  // Tokens at hand; below zero after requests that had to be sent again.
  #count = 0
  #expiresAtMs = -Infinity
  #emptyUntilMs = -Infinity
  #emptyAtMs = -Infinity
  #isTaking = false
  #timer: NodeJS.Timeout | undefined
  // Tokens that this process took from its share since it last reached the bucket of all processes; undefined while it
  // reaches the bucket.
  #owed: number | undefined
  // Tokens in the bucket at the last look.
  #seen: number
  #seenAtMs: number
  #lookedAtMs = -Infinity
  #taken = 0

  constructor (options: SharedRateOptions) {
    this.#options = options
    this.#seen = options.rate.burst
    this.#seenAtMs = options.now()
  }

  get rate (): GrantedRate {
    return this.#options.rate
  }

  /** Tokens of all processes that are left, with those at hand; others' use is known a second late at most. */
  get left (): number {
    if (this.#options.now() - this.#lookedAtMs >= lookEveryMs) this.#look()
    return Math.max(0, Math.floor(this.#inBucket + this.#atHand))
  }

  /** True if less than half of the tokens that can be saved are left. */
  get isHalfUsed (): boolean {
    return this.left * 2 < this.#options.rate.burst
  }

  /** Lowers the tokens of all processes to what the upstream says is left. */
  correct (left: number): void {
    this.#seen = Math.min(this.left, left)
    this.#seenAtMs = this.#options.now()
    this.#count = Math.min(0, this.#atHand)
    this.#look(left)
  }

  get isAtHand (): boolean {
    return this.#atHand > 0
  }

  /** True while there is no token, at hand or in the bucket. */
  get isEmpty (): boolean {
    return !this.isAtHand && this.#options.now() < this.#emptyUntilMs
  }

  /** True if the bucket had no token within the last second. */
  get isScarce (): boolean {
    return this.#options.now() - this.#emptyAtMs < scarceForMs
  }

  /** Uses tokens, even those not at hand: a request that was sent again is paid later. */
  use (count = 1): void {
    this.#count = this.#atHand - count
  }

  /** Returns the tokens of a request that was not sent. */
  giveBack (count = 1): void {
    this.#count += count
  }

  /** Takes a batch in advance if the process sends so often that the batch is used before it expires. */
  takeAhead (sentLately: number): void {
    const batch = Math.floor(sentLately * batchSeconds)
    if (this.#atHand < batch / 2) this.take(batch)
  }

  /** Takes as many tokens as requests wait, one batch at most. */
  take (wanted: number): void {
    if (this.#isTaking || this.#timer !== undefined) return
    this.#isTaking = true
    const { batch } = this.#options.rate
    this.#take(Math.max(1, Math.min(wanted - Math.min(0, this.#atHand), batch))).then(waitMs => {
      this.#isTaking = false
      if (waitMs > 0) this.#wait(waitMs)
      else this.#options.onChange()
    }, () => {})
  }

  /** Upper bound of tokens that come within a time, with those that are left. */
  capacityWithin (ms: number): number {
    return Math.ceil(this.left + ms / 1000 * this.#options.rate.perSecond)
  }

  close (): void {
    clearTimeout(this.#timer)
  }

  /** Returns 0 with tokens, else milliseconds until there are any. */
  async #take (count: number): Promise<number> {
    const { bucket, buckets, rate: { perSecond, burst } } = this.#options
    try {
      const waitMs = await buckets.take(bucket, { perSecond, burst }, count)
      if (waitMs === 0) this.#add('all', count)
      // Pays for the tokens of the share first, a burst at most, because the bucket has earned them again meanwhile.
      if (this.#owed !== undefined) this.use(Math.min(this.#owed, this.#shareRate.burst))
      this.#owed = undefined
      return waitMs
    } catch {
      return this.#takeOfShare(count)
    }
  }

  #takeOfShare (wanted: number): number {
    const rate = this.#shareRate
    const { now, processes } = this.#options
    const count = Math.min(wanted, rate.burst)
    // Fills the share with this process's part of the tokens that were left to all.
    if (this.#owed === undefined) this.#share.level(now(), rate, Math.ceil(this.#inBucket / processes()))
    this.#owed ??= 0
    const waitMs = this.#share.take(now(), rate, count)
    if (waitMs > 0) return waitMs
    this.#add('share', count)
    this.#owed += count
    return 0
  }

  /** Tokens in the bucket of all processes, as far as this one knows. */
  get #inBucket (): number {
    const { rate: { perSecond, burst }, now } = this.#options
    return Math.min(burst, this.#seen + (now() - this.#seenAtMs) / 1000 * perSecond)
  }

  get #shareRate (): TokenRate {
    const { rate: { perSecond, burst }, processes } = this.#options
    // Holds one token at least, or a process with a smaller share could never send; `interval` keeps its rate.
    return { interval: 1000 * processes() / perSecond, burst: Math.max(1, Math.floor(burst / processes())) }
  }

  /** Looks up the tokens of all processes, or of the share, and lowers them to `atMost`. */
  #look (atMost?: number): void {
    const { bucket, buckets, rate: { perSecond, burst }, now } = this.#options
    this.#lookedAtMs = now()
    const takenBefore = this.#taken
    const looked = async (): Promise<number> => await buckets.level(bucket, { perSecond, burst }, atMost)
    looked().catch(() => {
      const left = this.#share.level(now(), this.#shareRate, atMost)
      return this.#owed !== undefined ? left : Math.min(atMost ?? burst, this.#inBucket)
    }).then(seen => {
      // Subtracts tokens taken during the look, which the bucket may not have counted yet.
      this.#seen = seen - (this.#taken - takenBefore)
      this.#seenAtMs = now()
    }, () => {})
  }

  #add (source: TokenSource, count: number): void {
    const { now, taken, rate: { lifetimeMs } } = this.#options
    this.#count = this.#atHand + count
    this.#seen -= count
    this.#taken += count
    this.#expiresAtMs = now() + lifetimeMs
    taken(source, count)
  }

  #wait (ms: number): void {
    const { now, onChange } = this.#options
    this.#emptyAtMs = now()
    this.#emptyUntilMs = now() + ms
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      onChange()
    }, Math.ceil(ms)).unref()
  }

  get #atHand (): number {
    return this.#options.now() < this.#expiresAtMs ? this.#count : Math.min(0, this.#count)
  }
}
