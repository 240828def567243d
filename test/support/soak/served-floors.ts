import { Observations, type ServedFloor, type ServedPosition } from '../simulation/served-position.js'

interface Told {
  readonly at: number
  readonly floor: ServedFloor
}

// Longer than anything of the moment is held.
const rememberedMs = 5000

/**
 * The furthest that was shown, and what that was a while ago. Nothing is known to be kept: memory is small, and Redis
 * comes and goes.
 */
export class ServedFloors extends Observations {
  #told: Told[] = []

  override observe (shown: ServedPosition): void {
    const before = this.floor
    super.observe(shown)
    if (this.floor.versions === before.versions) return
    const now = performance.now()
    this.#told.push({ at: now, floor: this.floor })
    if (this.#told.length > 1000) this.#told = this.#told.filter(({ at }) => at > now - rememberedMs)
  }

  /** What had been shown by some time. */
  at (time: number): ServedFloor {
    return this.#told.findLast(({ at }) => at <= time)?.floor ?? { era: 0, versions: [] }
  }
}
