import { randomBytes } from 'node:crypto'
import { type ResponsePosition } from '../api/position.js'
import { type LeaseResult } from '../cache/coalescer.js'
import { type FollowedHead } from '../follow/ledger-knowledge.js'
import { type SharedTail, type TailTurn } from '../follow/tail-loop.js'
import { type TailReading } from '../follow/tail-reader.js'
import { type TransactionDigest } from '../follow/transaction-digest.js'
import { type RedisLink } from '../redis/link.js'
import { withTimeout } from '../with-timeout.js'
import { DigestStream, idOf, maxEntries, maxTextLength, type Place, type StreamEntry } from './digest-stream.js'
import { encodeDigest, parseDigest, type SentDigest } from './sent-digests.js'

/** Root of the accumulator at a version, with the position of the response that has it. */
export interface ProvenRoot {
  readonly root: string
  readonly stamped: ResponsePosition
}

/** Parts that reading the tail together needs. */
export interface RedisTailOptions {
  readonly link: Pick<RedisLink, 'isSteady' | 'run'>
  readonly prefix: string
  /** Names what digests depend on, such as the release: only equal hosts read together. */
  readonly form: string
  /** True if no page counts that was not checked. */
  readonly requiresVerified: boolean
  /** Name of the present space; undefined while none is known. */
  readonly space: () => string | undefined
  readonly mayBeOurs: (stamped: ResponsePosition) => boolean
  /** Reads a root of the accumulator and the present position from an upstream; undefined where none has both. */
  readonly readRoot: (version: bigint) => Promise<ProvenRoot | undefined>
  /** Runs when what others have read is not of our chain; everything from them is unknown. */
  readonly onDifferent: (reason: string) => void
  /** Announces a new digest to the other hosts. */
  readonly announce: (source: string) => void
  readonly now: () => number
  readonly leased: (result: LeaseResult) => void
}

// Each host proves what others have read by a root from an upstream of its own.
const proveEveryMs = 8000
const maxUnprovenMs = 24_000
const proveAgainMs = 2000
const maxProofMs = 1000
// Ledger time by which an upstream of this host may be ahead of what another one has read.
const maxBehindUsec = 15_000_000n
const distrustMs = 60_000
// A host whose upstreams are behind the others reads for itself for this time.
const behindMs = 2000
const maxSources = 64
// Clocks are slewed by less; more is a step of Redis's clock.
const maxSlew = 0.001
const maxJitterMs = 5

/** Time of Redis, and the own times before the command that has read it and after its reply. */
interface TimeSample {
  readonly timeMs: number
  readonly sentAtMs: number
  readonly receivedAtMs: number
}

/** Root to prove, of a version that an upstream which lags has too. */
interface Candidate extends FollowedHead {
  readonly source: string
  readonly atMs: number
}

const start: Place = { version: 0n, nth: 0 }
const alone: TailTurn = { kind: 'alone' }
const wait: TailTurn = { kind: 'wait' }
const gap: TailReading = { result: 'gap', transactions: [], stamped: undefined, reason: 'digests are missing' }

/**
 * Tail that one host reads for all, as digests in a Stream of Redis whose ids are versions. Every host proves them by
 * roots from an upstream of its own. Without Redis each host reads for itself (law 6: the cache can only help).
 */
export class RedisTail implements SharedTail {
  readonly #options: RedisTailOptions
  readonly #source = randomBytes(12).toString('base64url')
  readonly #provenAtMs = new Map<string, number>()
  readonly #distrustedUntilMs = new Map<string, number>()
  #space: string | undefined
  #stream: DigestStream | undefined
  // Last place that was read or written; it never goes back.
  #place = start
  #sample: TimeSample | undefined
  // False while the Stream may have more after the last turn.
  #isDrained = false
  #isWaiting = false
  #hasFollowed = false
  #isStopped = false
  #aloneUntilMs = -Infinity
  #takenAtMs = -Infinity
  #appending: Promise<void> = Promise.resolve()
  #candidate: Candidate | undefined
  #proving: Promise<boolean | undefined> | undefined
  #triedAtMs = -Infinity

  constructor (options: RedisTailOptions) {
    this.#options = options
  }

  /** Last error of a script from a Redis that responds otherwise. */
  get scriptError (): string | undefined {
    return this.#stream?.scriptError
  }

  /** Time since a digest of another host brought a head. */
  get takenAgeMs (): number {
    return this.#options.now() - this.#takenAtMs
  }

  /** Returns true if another host has sent a message of this source. */
  isOfOthers (source: string): boolean {
    return source !== this.#source
  }

  async next (head: FollowedHead | undefined): Promise<TailTurn> {
    await this.#appending
    const { link, space: presentSpace, now, leased } = this.#options
    const space = presentSpace()
    if (space !== this.#space) this.#enter(space)
    const stream = this.#stream
    if (stream === undefined || !link.isSteady || now() < this.#aloneUntilMs) return alone
    if (head !== undefined) {
      this.#hasFollowed = true
      if (head.version > this.#place.version) this.#place = { version: head.version, nth: 0 }
    }
    const sentAtMs = now()
    const found = await stream.next(this.#place).catch(() => undefined)
    if (found === undefined) {
      leased('failed')
      // Digests that come meanwhile may be of any age.
      this.#sample = undefined
      this.#isDrained = false
      return alone
    }
    const { timeMs, entries, holder, lease } = found
    // A digest that was not there at the last turn has an age on a clock that was steady since.
    const isAgeKnown = this.#isDrained && this.#hasSteadyClock(timeMs, sentAtMs)
    const sample = { timeMs, sentAtMs, receivedAtMs: now() }
    this.#sample = sample
    const newest = entries.at(-1)?.place
    if (newest !== undefined) {
      this.#isWaiting = false
      const turn = await this.#take(head, entries, isAgeKnown ? sample : undefined)
      this.#isDrained = entries.length < maxEntries && idOf(this.#place) === idOf(newest)
      return turn
    }
    this.#isDrained = true
    if (lease === 'none') {
      this.#isWaiting = true
      return this.#isDistrusted(holder) ? alone : wait
    }
    if (lease === 'taken') leased(this.#isWaiting ? 'lapsed' : 'taken')
    this.#isWaiting = false
    return {
      kind: 'lead',
      end: reading => {
        const earliestMs = timeMs + leastOf(now() - sample.receivedAtMs)
        this.#appending = this.#append(stream, head, reading, timeMs, earliestMs).catch(() => {
          leased('failed')
        })
      }
    }
  }

  release (): void {
    if (this.#options.link.isSteady) this.#stream?.release().catch(() => {})
  }

  /** Stops the other hosts too, because what all have read is wrong. */
  stop (reason: string): void {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#stream?.stop(this.#place, reason).then(() => {
      this.#options.announce(this.#source)
    }, () => {})
  }

  #enter (space: string | undefined): void {
    const { link, prefix, form } = this.#options
    this.#space = space
    this.#stream = space === undefined ? undefined : new DigestStream(link, prefix, `${space}:${form}`, this.#source)
    this.#place = start
    this.#sample = undefined
    this.#isDrained = false
    this.#isWaiting = false
    this.#candidate = undefined
    this.#provenAtMs.clear()
  }

  /** Takes digests that follow a head; without a sample of Redis's time their age is unknown. */
  async #take (
    head: FollowedHead | undefined,
    entries: readonly StreamEntry[],
    sample: TimeSample | undefined
  ): Promise<TailTurn> {
    const { leased, mayBeOurs, requiresVerified } = this.#options
    const transactions: TransactionDigest[] = []
    let last = head
    let [stamped, askedAtMs]: [ResponsePosition | undefined, number] = [undefined, -Infinity]
    // Counts what is proven; the next turn reads the rest again.
    const taken = (): TailTurn => ({
      kind: 'read',
      reading: { result: 'ok', transactions, stamped },
      // Redis's time was not later than the reply, so the age from the time before the command is not less than true.
      sentAtMs: sample === undefined ? -Infinity : sample.sentAtMs - (sample.timeMs - askedAtMs)
    })
    for (const { place, field, text } of entries) {
      if (field === 'stop') {
        this.#place = place
        // Nothing from before it was served by a process that begins.
        if (last === undefined && !this.#hasFollowed) continue
        this.#isStopped = true
        return { kind: 'stopped', reason: text }
      }
      const digest = parseDigest(text)
      const isUsable = digest !== undefined && !this.#isDistrusted(digest.source) &&
        (digest.isVerified || !requiresVerified) && (digest.stamped === undefined || mayBeOurs(digest.stamped)) &&
        endOf(digest).version === place.version
      if (!isUsable || !await this.#isProven(digest, sample)) {
        if (transactions.length > 0) return taken()
        // Passes what brings no transaction, or nothing would be read after it.
        if (last !== undefined && place.version <= last.version) this.#place = place
        return alone
      }
      if (last === undefined) return beginAt(digest.after)
      const following = followingIn(digest, last)
      switch (following) {
        case 'different':
          this.#distrust(digest.source, `it has another root at version ${last.version}`)
          return alone
        case 'unknown':
          return transactions.length > 0 ? taken() : alone
        case 'gap':
          return transactions.length > 0 ? taken() : { kind: 'read', reading: gap, sentAtMs: -Infinity }
      }
      transactions.push(...following)
      last = following.at(-1) ?? last
      // A digest from the future has no age.
      const isAgeKnown = sample !== undefined && digest.askedAtMs <= sample.timeMs
      stamped = isAgeKnown && endOf(digest).version === last.version ? digest.stamped : undefined
      askedAtMs = digest.askedAtMs
      this.#place = place
      if (stamped !== undefined && digest.source !== this.#source) this.#takenAtMs = this.#options.now()
      leased('waited')
    }
    return last === undefined ? wait : taken()
  }

  async #append (
    stream: DigestStream,
    head: FollowedHead | undefined,
    reading: TailReading,
    askedAtMs: number,
    earliestMs: number
  ): Promise<void> {
    const { requiresVerified, announce, now, leased } = this.#options
    const { result, stamped } = reading
    const last: FollowedHead | undefined = reading.transactions.at(-1) ?? head
    if ((result !== 'ok' && result !== 'empty') || last === undefined) return await stream.release()
    const base = { source: this.#source, askedAtMs, stamped, isVerified: requiresVerified }
    const whole = encodeDigest(
      head === undefined
        ? { ...base, after: last, transactions: [] }
        : { ...base, after: head, transactions: reading.transactions }
    )
    const text = whole.length > maxTextLength ? encodeDigest({ ...base, after: last, transactions: [] }) : whole
    const place = await stream.append(this.#place, last.version, text, earliestMs)
    if (place !== undefined) {
      this.#place = place
      return announce(this.#source)
    }
    leased('not_stored')
    // Another host has read on, or is ahead of the upstreams of this one.
    if (this.#place.version > last.version) this.#aloneUntilMs = now() + behindMs
    await stream.release()
  }

  /** Returns true if Redis's clock ran as the own one since the last turn, so that ages on it are true. */
  #hasSteadyClock (timeMs: number, sentAtMs: number): boolean {
    return this.#sample !== undefined &&
      timeMs - this.#sample.timeMs >= leastOf(sentAtMs - this.#sample.receivedAtMs)
  }

  /** Proves what a host has read by a root: before its first digest counts, then beside the others. */
  async #isProven (
    { source, after, stamped, askedAtMs }: SentDigest,
    sample: TimeSample | undefined
  ): Promise<boolean> {
    if (source === this.#source) return true
    const nowMs = this.#options.now()
    const ageMs = nowMs - (this.#provenAtMs.get(source) ?? -Infinity)
    if (ageMs < proveEveryMs) return true
    if (this.#candidate?.source !== source || nowMs - this.#candidate.atMs > proveEveryMs) {
      this.#candidate = { version: after.version, root: after.root, source, atMs: nowMs }
    }
    if (this.#proving === undefined && nowMs - this.#triedAtMs >= proveAgainMs) {
      this.#triedAtMs = nowMs
      const ageUsec = sample && BigInt(Math.round(1000 * (sample.timeMs - askedAtMs)))
      const expectedUsec = stamped && ageUsec !== undefined
        ? stamped.position.head.timestampUsec + ageUsec
        : undefined
      this.#proving = this.#prove(this.#candidate, expectedUsec).catch(() => false).finally(() => {
        this.#proving = undefined
      })
    }
    if (ageMs < maxUnprovenMs) return true
    return this.#proving !== undefined && await withTimeout(maxProofMs, this.#proving) === true
  }

  /**
   * Compares a root with that of an upstream of this host; false if it is not proven. An upstream far ahead of the
   * ledger time that is expected shows that the other one lags.
   */
  async #prove ({ version, root, source }: Candidate, expectedUsec: bigint | undefined): Promise<boolean> {
    const { readRoot, now } = this.#options
    const own = root === undefined ? undefined : await readRoot(version)
    if (own === undefined) return false
    this.#candidate = undefined
    const ownUsec = own.stamped.position.head.timestampUsec
    if (own.root !== root) this.#distrust(source, `an upstream of this host has another root at version ${version}`)
    else if (expectedUsec !== undefined && ownUsec - expectedUsec > maxBehindUsec) {
      this.#distrust(source, 'an upstream of this host is ahead of it')
    } else {
      this.#provenAtMs.set(source, now())
      dropOldest(this.#provenAtMs)
      return true
    }
    return false
  }

  /** Reads without a host for a time, because what it has read is not of our chain. */
  #distrust (source: string, reason: string): void {
    const { now, onDifferent } = this.#options
    this.#provenAtMs.delete(source)
    this.#distrustedUntilMs.set(source, now() + distrustMs)
    dropOldest(this.#distrustedUntilMs)
    onDifferent(reason)
  }

  #isDistrusted (source: string): boolean {
    return this.#options.now() < (this.#distrustedUntilMs.get(source) ?? -Infinity)
  }
}

/** Begins at a head that another process had: nothing before it is known. */
function beginAt ({ version, root }: FollowedHead): TailTurn {
  const transactions = [{ version, root, hashes: undefined, touched: [], touchesAll: undefined }]
  return { kind: 'read', reading: { result: 'ok', transactions, stamped: undefined }, sentAtMs: -Infinity }
}

function endOf ({ after, transactions }: SentDigest): FollowedHead {
  return transactions.at(-1) ?? after
}

/** Returns what a digest has after a head, or why it does not follow it. */
function followingIn (
  { after, transactions }: SentDigest,
  { version, root }: FollowedHead
): readonly TransactionDigest[] | 'gap' | 'different' | 'unknown' {
  if (after.version > version) return 'gap'
  const at = Number(version - after.version)
  const own: FollowedHead | undefined = at === 0 ? after : transactions[at - 1]
  // The head is beyond the digest.
  if (own === undefined) return []
  if (own.root === root) return transactions.slice(at)
  // A version that was stepped over has no root to compare.
  return own.root === undefined || root === undefined ? 'unknown' : 'different'
}

/** Returns the least time that passes on a steady clock while the own one passes another. */
function leastOf (ms: number): number {
  return ms * (1 - maxSlew) - maxJitterMs
}

function dropOldest (map: Map<string, number>): void {
  const [oldest] = map.keys()
  if (map.size > maxSources && oldest !== undefined) map.delete(oldest)
}
