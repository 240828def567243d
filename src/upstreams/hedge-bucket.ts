/** Token bucket that caps hedges at a share of reads plus a burst. */
export class HedgeBucket {
  readonly #share: number
  readonly #burst: number
  #tokens: number

  constructor (share: number, burst: number) {
    this.#share = share
    this.#burst = burst
    this.#tokens = burst
  }

  /** Adds the share that one read earns. */
  earn (): void {
    this.#tokens = Math.min(this.#burst, this.#tokens + this.#share)
  }

  /** Takes a token where there is one. */
  take (): boolean {
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}
