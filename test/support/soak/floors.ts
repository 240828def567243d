import { Memories, type Floor, type Shown } from '../fleet/shown.js'

interface Told {
  readonly at: number
  readonly floor: Floor
}

// Longer than anything of the moment is held.
const rememberedMs = 5000

/**
 * The furthest that was shown, and what that was a while ago. Nothing is known to be kept: memory is small, and Redis
 * comes and goes.
 */
export class Floors extends Memories {
  #told: Told[] = []

  override show (shown: Shown): void {
    const before = this.floor
    super.show(shown)
    if (this.floor.versions === before.versions) return
    const now = performance.now()
    this.#told.push({ at: now, floor: this.floor })
    if (this.#told.length > 1000) this.#told = this.#told.filter(({ at }) => at > now - rememberedMs)
  }

  /** What had been shown by some time. */
  at (time: number): Floor {
    return this.#told.findLast(({ at }) => at <= time)?.floor ?? { era: 0, versions: [] }
  }
}
