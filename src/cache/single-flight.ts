/** How a caller came by a flight's result. */
export interface Flown<T> {
  readonly result: T
  readonly joined: boolean
}

/**
 * One fetch for a burst of equal reads. A flight belongs to nobody: whoever gives up cancels nobody else,
 * and a failure is the verdict for the caller who started it alone; those who joined it fly once more, together.
 */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>()

  /** Runs `fly` unless an equal flight is under way, and joins that one then. */
  async do (key: string, fly: () => Promise<T>): Promise<Flown<T>> {
    const underWay = this.#flights.get(key)
    if (underWay === undefined) return { result: await this.#start(key, fly), joined: false }
    try {
      return { result: await underWay, joined: true }
    } catch {
      const next = this.#flights.get(key)
      if (next === undefined) return { result: await this.#start(key, fly), joined: false }
      return { result: await next, joined: true }
    }
  }

  get size (): number {
    return this.#flights.size
  }

  async #start (key: string, fly: () => Promise<T>): Promise<T> {
    const flight = fly().finally(() => this.#flights.delete(key))
    this.#flights.set(key, flight)
    return await flight
  }
}

/**
 * The same for latest reads, which must never be older than the moment they were asked (law 5):
 * a read joins only a flight that has not left yet, so there is one under way and one gathering behind it.
 */
export class GatheringFlight<T> {
  readonly #underWay = new Map<string, Promise<unknown>>()
  readonly #gathering = new Map<string, Promise<T>>()

  /** Runs `fly` when no equal flight is under way, else when that one has landed. */
  async do (key: string, fly: () => Promise<T>): Promise<Flown<T>> {
    const gathering = this.#gathering.get(key)
    if (gathering === undefined) return { result: await this.#gather(key, fly), joined: false }
    try {
      return { result: await gathering, joined: true }
    } catch {
      const next = this.#gathering.get(key)
      if (next === undefined) return { result: await this.#gather(key, fly), joined: false }
      return { result: await next, joined: true }
    }
  }

  get size (): number {
    return this.#underWay.size + this.#gathering.size
  }

  async #gather (key: string, fly: () => Promise<T>): Promise<T> {
    // With none under way it leaves within this very turn, which is long enough for those who ask in the same one.
    const ahead = this.#underWay.get(key) ?? Promise.resolve()
    const flight = ahead.then(async () => {
      this.#gathering.delete(key)
      return await this.#leave(key, fly)
    })
    this.#gathering.set(key, flight)
    return await flight
  }

  #leave (key: string, fly: () => Promise<T>): Promise<T> {
    const flight = fly()
    const landed = flight.then(() => {}, () => {}).then(() => {
      if (this.#underWay.get(key) === landed) this.#underWay.delete(key)
    })
    this.#underWay.set(key, landed)
    return flight
  }
}
