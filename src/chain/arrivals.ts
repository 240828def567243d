import { type Tracker } from './tracker.js'

/** How a wait for a version ended; nobody waits where all places are taken, or all that one client may have. */
export const arrivalResults = ['reached', 'timeout', 'no_place'] as const

/** One of the closed list. */
export type Arrival = typeof arrivalResults[number]

/** What waiting goes by. */
export interface ArrivalsOptions {
  readonly now: () => number
  /** Somebody waits: whoever may know where the chain stands is to be asked now. */
  onWaiting(): void
}

interface Waiter {
  readonly version: bigint
  readonly leave: (how: Arrival) => void
}

// A wait costs a request that is under way, a timer and a promise; beyond this many, whoever comes goes on at once (law
// 10).
const places = 1000

// Whoever asks for what never comes leaves room for others.
const placesOfOne = 250

// So often while somebody waits: the position would else be looked at too seldom for a wait of half a second.
const askEveryMs = 100

/** Who waits for the position shown to reach a version. */
export class Arrivals {
  readonly #tracker: Pick<Tracker, 'position'>
  readonly #options: ArrivalsOptions
  readonly #waiters = new Set<Waiter>()
  readonly #byClient = new Map<string, number>()
  #isOver = false
  #asking: NodeJS.Timeout | undefined
  #askedAt = -Infinity

  constructor (tracker: Pick<Tracker, 'position'>, options: ArrivalsOptions) {
    this.#tracker = tracker
    this.#options = options
  }

  /** How many wait now. */
  get waiting (): number {
    return this.#waiters.size
  }

  /** Waits until the position shown has reached a version, or the time is over. */
  async reach (version: bigint, ms: number, client = ''): Promise<Arrival> {
    if (this.#hasReached(version)) return 'reached'
    if (this.#isOver) return 'timeout'
    const mine = this.#byClient.get(client) ?? 0
    if (this.#waiters.size >= places || mine >= placesOfOne) return 'no_place'
    this.#byClient.set(client, mine + 1)
    return await new Promise(resolve => {
      const waiter: Waiter = {
        version,
        leave: how => {
          clearTimeout(timer)
          this.#waiters.delete(waiter)
          this.#leave(client)
          if (this.#waiters.size === 0) this.#rest()
          resolve(how)
        }
      }
      // Nobody is left to be answered in a process that has nothing else to do.
      const timer = setTimeout(() => {
        waiter.leave('timeout')
      }, ms).unref()
      this.#waiters.add(waiter)
      if (this.#waiters.size === 1) this.#begin()
    })
  }

  /** The position shown has moved: lets those go on who have waited for it. */
  look (): void {
    for (const waiter of this.#waiters) if (this.#hasReached(waiter.version)) waiter.leave('reached')
  }

  /** Nobody waits any longer, nor from now on. */
  close (): void {
    this.#isOver = true
    for (const waiter of this.#waiters) waiter.leave('timeout')
  }

  #hasReached (version: bigint): boolean {
    const shown = this.#tracker.position?.head.version
    return shown !== undefined && version <= shown
  }

  #leave (client: string): void {
    const left = (this.#byClient.get(client) ?? 0) - 1
    if (left > 0) this.#byClient.set(client, left)
    else this.#byClient.delete(client)
  }

  // At once as well: the head may have moved since it was last told of.
  #begin (): void {
    this.#asking = setInterval(() => {
      this.#ask()
    }, askEveryMs).unref()
    if (this.#options.now() - this.#askedAt >= askEveryMs) this.#ask()
  }

  #rest (): void {
    clearInterval(this.#asking)
    this.#asking = undefined
  }

  #ask (): void {
    this.#askedAt = this.#options.now()
    this.#options.onWaiting()
  }
}
