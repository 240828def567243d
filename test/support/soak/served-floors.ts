import { Observations, type ServedFloor, type ServedPosition } from '../simulation/served-position.js'

interface Told {
  readonly at: number
  readonly floor: ServedFloor
}

// Longer than any micro-cache time.
const rememberedMs = 5000

/** Served positions now and a while ago. Nothing counts as cached, because memory is small and Redis fails. */
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

  /** Returns the position served by a time. */
  at (time: number): ServedFloor {
    return this.#told.findLast(({ at }) => at <= time)?.floor ?? { era: 0, versions: [] }
  }
}
