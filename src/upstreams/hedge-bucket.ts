/** How many reads may be asked of a second node: never more in all than the share of them and the burst. */
export class HedgeBucket {
  readonly #share: number
  readonly #burst: number
  #granted: number

  constructor (share: number, burst: number) {
    this.#share = share
    this.#burst = burst
    this.#granted = burst
  }

  /** A read has come, which earns its share of one. */
  earn (): void {
    this.#granted = Math.min(this.#burst, this.#granted + this.#share)
  }

  /** Takes one, where there is one. */
  take (): boolean {
    if (this.#granted < 1) return false
    this.#granted--
    return true
  }
}
