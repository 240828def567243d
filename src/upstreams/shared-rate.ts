import { type TokenBuckets } from '../clients/token-buckets.js'
import { TokenBucket } from '../token-bucket.js'

/** Closed list of places that a token of an upstream's rate comes from: the bucket of all processes, or one's share. */
export const tokenSources = ['all', 'share'] as const

/** One source of the closed list. */
export type TokenSource = typeof tokenSources[number]

/** Limits of upstreams that processes share. */
export interface SharedLimits {
  /** Buckets of all processes, which reject while they cannot be reached; undefined for a process without peers. */
  readonly buckets: Pick<TokenBuckets, 'take'> | undefined
  /** Processes that share the rate of an upstream, as last known. */
  readonly processes: () => number
  /** Hosts that share the slots of an upstream, as last known. */
  readonly hosts: () => number
}

/** Parts that the tokens of one upstream need. */
export interface SharedRateOptions {
  readonly name: string
  readonly buckets: Pick<TokenBuckets, 'take'>
  readonly processes: () => number
  readonly perSecond: number
  readonly now: () => number
  readonly taken: (source: TokenSource, count: number) => void
  /** Runs when tokens have come, or may be asked for again. */
  readonly onChange: () => void
}

// Tokens of this time are taken at once, so that a busy process asks 20 times a second.
const batchSeconds = 0.05
// Tokens of this time are saved while no process takes any.
const burstSeconds = 0.1
// Tokens are used soon or never, or each process could save some for one second.
const lifetimeMs = 100
// Work that can wait stays away for this long after the bucket had no token.
const scarceForMs = 1000

/**
 * Tokens of an upstream's rate that this process has taken from the bucket of all processes, in batches. Without that
 * bucket it takes from its own share of the rate (law 6: the cache can only help).
 */
export class SharedRate {
  readonly #options: SharedRateOptions
  readonly #batch: number
  readonly #burst: number
  readonly #share = new TokenBucket()
  // Below zero after requests that had to be sent again.
  #count = 0
  #expiresAtMs = -Infinity
  #emptyUntilMs = -Infinity
  #emptyAtMs = -Infinity
  #isTaking = false
  #timer: NodeJS.Timeout | undefined

  constructor (options: SharedRateOptions) {
    this.#options = options
    this.#batch = Math.max(1, Math.floor(options.perSecond * batchSeconds))
    this.#burst = Math.max(1, Math.floor(options.perSecond * burstSeconds))
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

  /** Uses a token, also one that is not at hand: a request that was sent again is paid later. */
  use (): void {
    this.#count = this.#atHand - 1
  }

  /** Returns the token of a request that was not sent. */
  giveBack (): void {
    this.#count++
  }

  /** Takes a batch in advance where a process sends so often that it uses it before it expires. */
  takeAhead (sentLately: number): void {
    const batch = Math.floor(sentLately * batchSeconds)
    if (this.#atHand < batch / 2) this.take(batch)
  }

  /** Takes as many as requests wait, in one batch at most. */
  take (wanted: number): void {
    if (this.#isTaking || this.#timer !== undefined) return
    this.#isTaking = true
    this.#take(Math.max(1, Math.min(wanted - Math.min(0, this.#atHand), this.#batch))).then(waitMs => {
      this.#isTaking = false
      if (waitMs > 0) this.#wait(waitMs)
      else this.#options.onChange()
    }, () => {})
  }

  close (): void {
    clearTimeout(this.#timer)
  }

  /** Returns 0 with tokens, else milliseconds until there are any. */
  async #take (count: number): Promise<number> {
    const { name, buckets, perSecond } = this.#options
    try {
      const waitMs = await buckets.take(`upstream ${name}`, { perSecond, burst: this.#burst }, count)
      if (waitMs === 0) this.#add('all', count)
      return waitMs
    } catch {
      return this.#takeOfShare(count)
    }
  }

  #takeOfShare (wanted: number): number {
    const { perSecond, processes, now } = this.#options
    const interval = 1000 * processes() / perSecond
    // A fraction of a request is none, and earns one in time.
    const burst = Math.max(1, Math.floor(this.#burst / processes()))
    const count = Math.min(wanted, burst)
    const waitMs = this.#share.take(now(), { interval, burst }, count)
    if (waitMs === 0) this.#add('share', count)
    return waitMs
  }

  #add (source: TokenSource, count: number): void {
    const { now, taken } = this.#options
    this.#count = this.#atHand + count
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
    }, Math.ceil(ms))
  }

  get #atHand (): number {
    return this.#options.now() < this.#expiresAtMs ? this.#count : Math.min(0, this.#count)
  }
}
