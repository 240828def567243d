import { FairQueue } from './fair-queue.js'
import { Pace, paceOf } from './pace.js'
import { type Recall } from './taking-back.js'

/** How much may be asked of a node. */
export interface BudgetOptions {
  readonly maxConcurrent: number
  /** Null: as many as come. */
  readonly requestsPerSecond: number | null
  readonly now: () => number
}

/** Who waits for a turn, and until when. */
export interface Wish {
  readonly client: string | undefined
  /** Asked by varve for itself: before all others, and never refused. */
  readonly isOwn: boolean
  readonly timeoutMs: number
  readonly signal: Recall | undefined
}

/** There was no turn: too many wait, or it did not come in time. */
export class NoTurn extends Error {}

interface Waiter {
  begin(turn: Turn): void
  refuse(): void
}

// With the limit of connections, how many reads may be under way or waiting for one.
const waitingPerConnection = 8

/**
 * How much of a node is in use, and who waits for it: no more than so many at once, no more than so many a second, and
 * no more waiting than can be served soon.
 */
export class Budget {
  /** How many may have their turn at once. */
  readonly maxConcurrent: number
  readonly #pace: Pace | undefined
  readonly #own = new Set<Waiter>()
  readonly #queue = new FairQueue<Waiter>()
  readonly #onIdle: Array<() => void> = []
  #underWay = 0
  #wasOwn = false
  #timer: NodeJS.Timeout | undefined

  constructor ({ maxConcurrent, requestsPerSecond, now }: BudgetOptions) {
    this.maxConcurrent = maxConcurrent
    this.#pace = requestsPerSecond === null ? undefined : new Pace(paceOf(requestsPerSecond), now)
  }

  /** How many have their turn. */
  get underWay (): number {
    return this.#underWay
  }

  /** How many wait for one. */
  get waiting (): number {
    return this.#own.size + this.#queue.size
  }

  /**
   * Whether more than is needed should not be asked: a client waits, or half of the connections or of the second is
   * used up, by others than so many.
   */
  isTight (own = 0): boolean {
    return this.#queue.size > 0 || (this.#underWay - own) * 2 >= this.maxConcurrent ||
      this.#pace?.isHalfUsed(own) === true
  }

  /** Whether more than half would be left after one more. */
  get hasSpare (): boolean {
    return !this.isTight(-1)
  }

  /** Whether a turn is to be waited for. */
  get isFull (): boolean {
    return this.waiting > 0 || !this.#hasTurn
  }

  /** A turn at once, without a promise; undefined where it is to be waited for. */
  take (isOwn: boolean): Turn | undefined {
    const isFirst = isOwn ? this.#own.size === 0 : this.waiting === 0
    return isFirst && this.#hasTurn ? this.#begin() : undefined
  }

  /** A turn when it comes; fails with NoTurn, or with the signal's reason. */
  async wait ({ client = '', isOwn, timeoutMs, signal }: Wish): Promise<Turn> {
    if (!isOwn) this.#makeRoom(client, timeoutMs)
    return await new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', takeBack)
        this.#own.delete(waiter)
        this.#queue.remove(client, waiter)
      }
      const waiter: Waiter = {
        begin: turn => {
          leave()
          resolve(turn)
        },
        refuse: () => {
          leave()
          reject(new NoTurn('no turn'))
          this.#tellIfIdle()
        }
      }
      const takeBack = (): void => {
        leave()
        reject(signal?.reason)
        this.#tellIfIdle()
      }
      const timer = setTimeout(waiter.refuse, timeoutMs)
      signal?.addEventListener('abort', takeBack, { once: true })
      if (isOwn) this.#own.add(waiter)
      else this.#queue.add(client, waiter)
      this.#serve()
    })
  }

  /** Resolves when nothing is under way, and nothing waits. */
  async idle (): Promise<void> {
    await new Promise<void>(resolve => {
      this.#onIdle.push(resolve)
      this.#tellIfIdle()
    })
  }

  /** Nobody gets a turn any more that waits for one. */
  close (): void {
    clearTimeout(this.#timer)
    for (const waiter of this.#own) waiter.refuse()
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) next.refuse()
  }

  #tellIfIdle (): void {
    if (this.#underWay === 0 && this.waiting === 0) { for (const resolve of this.#onIdle.splice(0)) resolve() }
  }

  get #hasTurn (): boolean {
    return this.#underWay < this.maxConcurrent && (this.#pace === undefined || this.#pace.readyInMs <= 0)
  }

  // Whoever floods makes room for those who do not; what could not be served in time has no room at all (law 10).
  #makeRoom (client: string, timeoutMs: number): void {
    const room = Math.min(
      this.maxConcurrent * waitingPerConnection - this.#underWay,
      this.#pace?.within(timeoutMs) ?? Infinity
    )
    if (this.#queue.size < room) return
    const other = this.#queue.lastOfMost(client)
    if (other === undefined) throw new NoTurn('too many wait')
    other.refuse()
  }

  #begin (): Turn {
    this.#underWay++
    this.#pace?.take()
    return new Turn(this.#pace, () => {
      this.#underWay--
      this.#serve()
      this.#tellIfIdle()
    }, () => {
      this.#serve()
    })
  }

  #serve (): void {
    while (this.waiting > 0 && this.#underWay < this.maxConcurrent) {
      const readyInMs = this.#pace?.readyInMs ?? 0
      if (readyInMs > 0) return this.#serveIn(readyInMs)
      this.#next()?.begin(this.#begin())
    }
  }

  // Its own questions come first, but never twice in a row while clients wait: a node that may be asked little would be
  // asked nothing else.
  #next (): Waiter | undefined {
    const [own] = this.#own
    this.#wasOwn = own !== undefined && !(this.#wasOwn && this.#queue.size > 0)
    return this.#wasOwn ? own : this.#queue.shift()
  }

  // One timer for all of them; what hangs on a question that is still to be sent is served when that is.
  #serveIn (ms: number): void {
    if (this.#timer !== undefined || ms === Infinity) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      this.#serve()
    }, Math.ceil(ms))
  }
}

/** What a question has while it is under way. */
export class Turn {
  readonly #pace: Pace | undefined
  readonly #onOver: () => void
  readonly #onSent: () => void
  #isSent = false

  constructor (pace: Pace | undefined, onOver: () => void, onSent: () => void) {
    this.#pace = pace
    this.#onOver = onOver
    this.#onSent = onSent
  }

  /** It is on its way, perhaps once more. */
  sent (): void {
    if (this.#pace === undefined) return
    if (this.#isSent) this.#pace.sentAgain()
    else this.#pace.sent()
    this.#isSent = true
    this.#onSent()
  }

  /** It is out of the way. */
  over (): void {
    if (!this.#isSent) this.#pace?.drop()
    this.#onOver()
  }
}
