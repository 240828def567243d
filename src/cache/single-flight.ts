/** How a caller came by a flight's result. */
export interface Flown<T> {
  readonly result: T
  readonly joined: boolean
}

/** Whether a result may be had by more than the one who began the flight; what streams has one reader. */
export type IsShareable<T> = (result: T) => boolean

/**
 * One fetch for a burst of equal reads. A flight belongs to nobody: whoever gives up cancels nobody else,
 * and a failure is the verdict for the caller who started it alone; those who joined it fly once more, together.
 */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Promise<T>>()
  readonly #isShareable: IsShareable<T>

  constructor (isShareable: IsShareable<T>) {
    this.#isShareable = isShareable
  }

  /** Runs `fly` unless an equal flight is under way, and joins that one then. */
  async do (key: string, fly: () => Promise<T>): Promise<Flown<T>> {
    // What most do, with nothing made for those who join.
    if (!this.#flights.has(key)) return { result: await this.#start(key, fly), joined: false }
    return await joinOrStart(() => this.#flights.get(key), () => this.#start(key, fly), fly, this.#isShareable)
  }

  /** Whether an equal flight is under way. */
  has (key: string): boolean {
    return this.#flights.has(key)
  }

  get size (): number {
    return this.#flights.size
  }

  #start (key: string, fly: () => Promise<T>): Promise<T> {
    const flight = this.#land(key, fly())
    this.#flights.set(key, flight)
    return flight
  }

  async #land (key: string, flown: Promise<T>): Promise<T> {
    try {
      return await flown
    } finally {
      this.#flights.delete(key)
    }
  }
}

/**
 * The same for latest reads, which must never be older than the moment they were asked (law 5):
 * a read joins only a flight that has not left yet, so there is one under way and one gathering behind it.
 */
export class GatheringFlight<T> {
  readonly #underWay = new Map<string, Promise<unknown>>()
  readonly #gathering = new Map<string, Promise<T>>()
  readonly #isShareable: IsShareable<T>

  constructor (isShareable: IsShareable<T>) {
    this.#isShareable = isShareable
  }

  /** Runs `fly` when no equal flight is under way, else when that one has landed. */
  async do (key: string, fly: () => Promise<T>): Promise<Flown<T>> {
    return await joinOrStart(() => this.#gathering.get(key), () => this.#gather(key, fly), fly, this.#isShareable)
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

/** A failure is the verdict for the one who started: those who joined it start or join once more, together. */
async function joinOrStart<T> (
  joinable: () => Promise<T> | undefined,
  start: () => Promise<T>,
  fly: () => Promise<T>,
  isShareable: IsShareable<T>
): Promise<Flown<T>> {
  const first = joinable()
  if (first === undefined) return { result: await start(), joined: false }
  const landed = await first.then(result => ({ result }), () => undefined)
  if (landed !== undefined) return await orAlone(landed.result, fly, isShareable)
  const next = joinable()
  return next === undefined ? { result: await start(), joined: false } : await orAlone(await next, fly, isShareable)
}

// Those who joined what cannot be shared go on their own: one after another would wait for the slowest reader.
async function orAlone<T> (result: T, fly: () => Promise<T>, isShareable: IsShareable<T>): Promise<Flown<T>> {
  return isShareable(result) ? { result, joined: true } : { result: await fly(), joined: false }
}
