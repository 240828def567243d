import { randomBytes } from 'node:crypto'
import { unavailableError } from '../api/error-response.js'
import { type ResponsePosition } from '../api/position.js'
import { type SharedHeads, type Tracker } from '../chain/tracker.js'
import { withTimeout } from '../with-timeout.js'
import { type SharedHeadMessage } from './messages.js'
import { type Beat, parseBeats, encodeWithChecksum } from './parse-records.js'
import { changeRecord, type Records } from './records.js'

/** Parts of a process that serves heads together with others. */
export interface SharedHeadOptions {
  readonly tracker: Tracker
  /** Records of all processes. */
  readonly records: Records
  readonly publish: (message: SharedHeadMessage) => void
  /** True if messages come back to their sender, which shows that messages arrive. */
  readonly isEchoed: boolean
  readonly now: () => number
}

/** Other process, as its messages and its rising number show it. */
interface Member {
  beat: number
  roseAtMs: number
  /**
   * Last message; undefined before the first. No process waits for a member without one: such a member serves nothing
   * before all have replied.
   */
  last: SharedHeadMessage | undefined
}

const beatEveryMs = 500
// Time after which a process that could not renew its place is no member: it serves nothing, and no other process waits
// for it.
const lapsedAfterMs = 2000
// Limits the wait for other members: a member that is gone has lapsed by then, and others have noticed.
const maxWaitMs = lapsedAfterMs + 2 * beatEveryMs
// Counts this process as parted if others do not accept it for this long: its messages or theirs do not arrive.
const partedAfterMs = 3 * lapsedAfterMs
const maxGone = 1000

/**
 * Head that several processes serve together, so that a client of several never sees the head go back. Each process
 * announces its newest head, promises to serve a head that all have, and serves it once all have promised. With one
 * round alone, a process could serve a head that another process does not yet know to be shared. A member lapses by its
 * own clock, before any other can drop it, so clocks need only run equally fast. A member that lapsed comes back under
 * another name, so no old message says anything about it.
 */
export class SharedHead implements SharedHeads {
  readonly #options: SharedHeadOptions
  readonly #members = new Map<string, Member>()
  // Names of members that are gone for good, since a member that lapses comes back under another name.
  readonly #gone = new Set<string>()
  readonly #waiting = new Set<() => void>()
  #state: 'starting' | 'joined' | 'lapsed' | 'parted' = 'starting'
  #id = newId()
  #beat = 0
  #beatAtMs = -Infinity
  #memberUntilMs = -Infinity
  #hasFailed = false
  #beganAtMs: number
  #nth = 0
  #announced = ''
  // Lowest version that this process still serves, and the version that all have promised.
  #promised = -1n
  #settled = -1n
  // Head with which this process joined: it may have served that head alone, so nothing is promised before all have it.
  #joinedAt = -1n
  #timer: NodeJS.Timeout | undefined
  #isBeating = false
  #isStopped = true

  constructor (options: SharedHeadOptions) {
    this.#options = options
    this.#beganAtMs = options.now()
  }

  has (version: bigint | undefined): boolean {
    return this.#isMember() ? (version ?? -1n) <= this.#settled : this.#state === 'parted'
  }

  get fault (): SharedHeads['fault'] {
    if (this.#isMember() && this.#settled >= this.#joinedAt) return undefined
    return this.#state === 'parted'
      ? { text: 'head.fleet has no effect: this process cannot reach the others', isServing: true }
      : { text: 'head.fleet: reads get 503 until the other processes know this one', isServing: false }
  }

  start (): void {
    this.#isStopped = false
    this.#schedule(0)
  }

  /** Leaves the members, so that no member waits for this process. */
  async stop (): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#announce(true)
    // Last command of the connection, so the message that this process has left was sent before.
    await this.#change(beats => beats).catch(() => {})
  }

  async reach (version: bigint | undefined): Promise<void> {
    const { now, tracker } = this.#options
    // Does not wait while no chain is known: the read fails next, and says why.
    if (tracker.space === undefined) return
    const endsAtMs = now() + maxWaitMs
    while (!this.has(version)) {
      if (this.#state === 'lapsed') throw unavailableError('this process of varve catches up with the others')
      const leftMs = endsAtMs - now()
      if (leftMs <= 0) throw unavailableError('other processes of varve lack the newest head')
      let resume = (): void => {}
      await withTimeout(leftMs, new Promise<void>(resolve => this.#waiting.add(resume = resolve)))
      this.#waiting.delete(resume)
    }
  }

  /** Takes a message of a process in the same space. */
  onMessage (message: SharedHeadMessage): void {
    const { id, nth, stamped, promised, members, hasLeft } = message
    if (id === this.#id) this.#extend(message.beatAtMs)
    if (id === this.#id || this.#gone.has(id)) return
    const member = this.#members.get(id) ?? { beat: -1, roseAtMs: this.#options.now(), last: undefined }
    // Ignores a message that comes twice or late: two ways lead from one worker to another.
    if ((member.last?.nth ?? -1) >= nth) return
    member.last = message
    this.#members.set(id, member)
    if (hasLeft) this.#drop(id)
    // Begins again if another member no longer waits for this process, as after the machine was suspended.
    else if (promised !== undefined && this.#isMember() && !members.includes(this.#id)) this.#begin('lapsed')
    if (stamped !== undefined) this.#options.tracker.learnOfPeer(stamped)
    this.update()
  }

  /** Takes in a head that this process has learned, or heads that other members have announced. */
  update (): void {
    if (this.#isStopped) return
    if (this.#state !== 'joined') this.#tryToJoin()
    if (this.#state === 'joined') this.#raise()
    this.#announce(false)
    for (const resume of this.#waiting) resume()
    this.#waiting.clear()
  }

  /** Begins again on another chain, because heads of the old chain say nothing about it. */
  changeSpace (): void {
    if (this.#options.tracker.isHeld) return this.#schedule(0)
    this.#members.clear()
    this.#begin(this.#state === 'joined' ? 'starting' : this.#state)
  }

  #raise (): void {
    const { tracker } = this.#options
    let lowest = tracker.known
    for (const { last } of this.#members.values()) {
      if (last !== undefined && versionOf(last.stamped) < versionOf(lowest)) lowest = last.stamped
    }
    if (lowest !== undefined && versionOf(lowest) > this.#promised && tracker.mayBeOurs(lowest.position)) {
      this.#promised = versionOf(lowest)
      tracker.hold(lowest)
    }
    this.#settled = this.#promised
    for (const { last } of this.#members.values()) {
      // Joins with a promise of at least the head that it has announced, before it serves anything.
      if (last?.promised !== undefined && last.promised < this.#settled) this.#settled = last.promised
    }
  }

  /** Joins once each member waits for this process, which then knows what they serve. */
  #tryToJoin (): void {
    const { tracker: { known }, now } = this.#options
    // Waits for the second beat: if the record was lost just before the first, all members are in it again by then.
    if (this.#beat < 2 || now() >= this.#memberUntilMs) return
    for (const { last } of this.#members.values()) {
      if (last?.members.includes(this.#id) !== true || (last.promised ?? -1n) > versionOf(known)) return
    }
    this.#state = 'joined'
    this.#promised = this.#joinedAt = versionOf(known)
    this.#options.tracker.hold(known)
  }

  #announce (hasLeft: boolean): void {
    const members = [...this.#members].filter(([, { last }]) => last !== undefined).map(([id]) => id)
    const stamped = this.#options.tracker.known
    const promised = this.#state === 'joined' ? this.#promised : undefined
    const text = [this.#beatAtMs, versionOf(stamped), promised, hasLeft, ...members].join()
    if (text === this.#announced || this.#beat === 0) return
    this.#announced = text
    this.#options.publish({
      kind: 'heads',
      id: this.#id,
      nth: this.#nth++,
      beatAtMs: this.#beatAtMs,
      stamped,
      promised,
      members,
      hasLeft
    })
  }

  /** Compares with the clock, since a process that was suspended serves reads before its timers run. */
  #isMember (): boolean {
    if (this.#state !== 'joined') return false
    if (this.#options.now() < this.#memberUntilMs) return true
    // Leaves the members: a suspended process notices failures late, and another process may serve a newer head
    // meanwhile.
    this.#begin(this.#hasFailed ? 'parted' : 'lapsed')
    return false
  }

  #extend (beatAtMs: number): void {
    if (this.#state === 'joined' && !this.#isMember()) return
    this.#memberUntilMs = Math.max(this.#memberUntilMs, beatAtMs + lapsedAfterMs)
  }

  /** Begins to join under a new name, because what other processes know of the old name no longer holds. */
  #begin (state: 'starting' | 'lapsed' | 'parted'): void {
    this.#state = state
    this.#id = newId()
    this.#beat = 0
    this.#hasFailed = false
    this.#beganAtMs = this.#options.now()
    this.#memberUntilMs = -Infinity
    this.#promised = this.#settled = -1n
    this.#options.tracker.hold(undefined)
    this.#schedule(0)
  }

  #schedule (ms: number): void {
    if (this.#isStopped) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      // Leaves the next beat to the beat in flight.
      if (this.#isBeating) return
      this.#isBeating = true
      const id = this.#id
      this.#beatNow().catch(() => {}).finally(() => {
        this.#isBeating = false
        this.#schedule(id === this.#id ? this.#nextBeatMs() : 0)
      })
    }, ms).unref()
  }

  /** Time to the next beat: at once if a silent member lapses, because reads of a member wait for it. */
  #nextBeatMs (): number {
    if (this.#state !== 'joined' || this.#hasFailed) return beatEveryMs
    const lapsesInMs = [...this.#members.values()].map(({ roseAtMs }) =>
      Math.ceil(roseAtMs + lapsedAfterMs - this.#options.now())
    )
    // A member may lapse while a beat is under way, which looks too early to drop it.
    return Math.max(0, Math.min(beatEveryMs, ...lapsesInMs))
  }

  async #beatNow (): Promise<void> {
    const { tracker, now, isEchoed } = this.#options
    const [id, sentAtMs] = [this.#id, now()]
    if (tracker.space === undefined) {
      this.#beganAtMs = sentAtMs
      return
    }
    try {
      const own = { id, beat: this.#beat + 1 }
      const listed = await this.#change(beats => [...beats, own])
      if (id !== this.#id) return
      this.#beat = own.beat
      this.#beatAtMs = sentAtMs
      this.#hasFailed = false
      this.#look(listed, sentAtMs)
      if (!isEchoed) this.#extend(sentAtMs)
    } catch {
      if (this.#isMember()) this.#hasFailed = true
      // Ignores a failure of a change that began under an earlier name.
      else if (id === this.#id) this.#state = 'parted'
    }
    // Waits less before the first beat succeeds: own messages come back in time, if any arrive.
    const limitMs = this.#memberUntilMs === -Infinity ? lapsedAfterMs : partedAfterMs
    if (!this.#isMember() && now() - this.#beganAtMs > limitMs) this.#state = 'parted'
    this.update()
  }

  /** Changes the numbers of all processes but this one; returns the numbers from before. */
  async #change (change: (others: ReadonlyArray<Beat>) => ReadonlyArray<Beat>): Promise<readonly Beat[]> {
    const { records, tracker: { space } } = this.#options
    let others: readonly Beat[] = []
    if (space === undefined) return others
    await changeRecord(records, `heads ${space.name}`, text => {
      others = parseBeats(text).filter(({ id }) => id !== this.#id && !this.#gone.has(id))
      return encodeWithChecksum(change(others))
    })
    return others
  }

  /** Notices new members, and members whose number no longer rises. */
  #look (beats: readonly Beat[], readAtMs: number): void {
    const nowMs = this.#options.now()
    for (const { id, beat } of beats) {
      const member = this.#members.get(id)
      if (member === undefined) this.#members.set(id, { beat, roseAtMs: nowMs, last: undefined })
      else if (beat > member.beat) Object.assign(member, { beat, roseAtMs: nowMs })
    }
    for (const [id, { roseAtMs }] of this.#members) if (readAtMs - roseAtMs >= lapsedAfterMs) this.#drop(id)
  }

  #drop (id: string): void {
    this.#members.delete(id)
    this.#gone.add(id)
    const [oldest] = this.#gone
    if (this.#gone.size > maxGone && oldest !== undefined) this.#gone.delete(oldest)
  }
}

function newId (): string {
  return randomBytes(6).toString('hex')
}

function versionOf (stamped: ResponsePosition | undefined): bigint {
  return stamped?.position.head.version ?? -1n
}
