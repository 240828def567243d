import { randomBytes } from 'node:crypto'
import { type ResponsePosition } from '../api/position.js'
import { type LeaseResult } from '../cache/coalescer.js'
import { type FollowedHead } from '../follow/ledger-knowledge.js'
import { type SharedTail, type TailTurn } from '../follow/tail-loop.js'
import { type TailReading } from '../follow/tail-reader.js'
import { type TransactionDigest } from '../follow/transaction-digest.js'
import { type RedisLink } from '../redis/link.js'
import { withTimeout } from '../with-timeout.js'
import {
  DigestStream,
  idOf,
  maxEntries,
  maxTextLength,
  type Place,
  type StreamEntry,
  encodeDigest,
  parseDigest,
  type SentDigest
} from './digest-stream.js'

/** Root of the accumulator at a version, with the position of the response that has it. */
export interface ProvenRoot {
  readonly root: string
  readonly stamped: ResponsePosition
  /** Records that the root equals the one that this host follows, so the upstream is on our chain. */
  readonly confirm: () => void
}

/** Parts with which the hosts of one Redis share the work of reading the tail. */
export interface RedisTailOptions {
  readonly link: Pick<RedisLink, 'isSteady' | 'runScript' | 'forgetScriptError'>
  readonly prefix: string
  /** Name of all that digests depend on, such as the release: only hosts with equal names read together. */
  readonly form: string
  /** Age above which a head serves no read. */
  readonly maxAgeMs: number
  /** True if an unchecked page counts as a change of everything. */
  readonly requiresVerified: boolean
  /** Name of the present space; undefined while none is known. */
  readonly space: () => string | undefined
  readonly mayBeOurs: (stamped: ResponsePosition) => boolean
  /** Reads a root of the accumulator and the present position from an upstream; undefined if no upstream has both. */
  readonly readRoot: (version: bigint) => Promise<ProvenRoot | undefined>
  /** Runs when other hosts have read another chain, so nothing from these hosts counts any more. */
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
// Ledger time by which an upstream of this host may be ahead of the digests of another host.
const maxBehindUsec = 15_000_000n
const distrustMs = 60_000
// Time for which a host that reads slowly leaves the lease to other hosts.
const yieldMs = 2000
// Exceeds the time of a lease, so that another host can replace a reader that dies.
const minWaitMs = 2500
const stopEveryMs = 1000
const maxSources = 64
// Bounds how much a clock is slewed; a larger difference is a step of Redis's clock.
const maxSlew = 0.001
const maxJitterMs = 5
// Bounds the time between two comparisons of the clocks, which may drift too far in a longer time.
const minComparedMs = 5000

/** Time of Redis, with the times of this process before the command that read it and after its reply. */
interface TimeSample {
  readonly timeMs: number
  readonly sentAtMs: number
  readonly receivedAtMs: number
}

/** Time of Redis on a clock that was steady since the last turn, within a slack. */
interface SteadyTime extends TimeSample {
  readonly slackMs: number
}

/** Root to prove, of a version that a lagging upstream has too. */
interface Candidate extends FollowedHead {
  readonly source: string
  readonly atMs: number
}

const start: Place = { version: 0n, nth: 0 }
const alone: TailTurn = { kind: 'alone' }
const wait: TailTurn = { kind: 'wait' }

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
  // False while the Stream may hold entries after the last turn.
  #isDrained = false
  #isWaiting = false
  // Time of the first turn since other hosts brought the last fresh head; undefined while their heads are fresh.
  #waitsSinceMs: number | undefined
  // Stop that the first turn found: a new process has served nothing from before this stop.
  #knownStop: string | undefined
  #isStopped = false
  #stopTimer: NodeJS.Timeout | undefined
  #isClosed = false
  #yieldsUntilMs = -Infinity
  #takenAtMs = -Infinity
  #appending: Promise<void> = Promise.resolve()
  #candidate: Candidate | undefined
  #proving: Promise<boolean | undefined> | undefined
  #triedAtMs = -Infinity
  // Source of digests that, at the last proof, was behind an upstream of this host.
  #behindSource: string | undefined

  constructor (options: RedisTailOptions) {
    this.#options = options
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
    if (stream === undefined || !link.isSteady) return alone
    if (head !== undefined && head.version > this.#place.version) this.#place = { version: head.version, nth: 0 }
    const sentAtMs = now()
    const found = await stream.next(this.#place, sentAtMs >= this.#yieldsUntilMs).catch(() => undefined)
    if (found === undefined) {
      leased('failed')
      // Loses the sample: digests that come meanwhile may have any age.
      this.#sample = undefined
      this.#isDrained = false
      return alone
    }
    const { timeMs, entries, holder, lease, stop } = found
    this.#knownStop ??= stop
    if (stop !== '' && stop !== this.#knownStop) {
      this.#isStopped = true
      return { kind: 'stopped', reason: stop.slice(stop.indexOf(' ') + 1) }
    }
    const sample = { timeMs, sentAtMs, receivedAtMs: now() }
    // Measures the age of a new digest, which was not there at the last turn, on a clock that was steady since.
    const steady = this.#isDrained ? this.#steadyTime(sample) : undefined
    this.#sample = sample
    const newest = entries.at(-1)?.place
    if (newest !== undefined) {
      this.#isWaiting = false
      const turn = await this.#take(head, entries, steady)
      this.#isDrained = entries.length < maxEntries && idOf(this.#place) === idOf(newest)
      this.#noteAge(turn)
      return turn
    }
    this.#isDrained = true
    if (lease === 'none') {
      this.#isWaiting = holder !== '' && holder !== this.#source
      this.#noteAge(wait)
      return this.#isWaiting && !this.#isDistrusted(holder) && !this.#hasWaited ? wait : alone
    }
    if (lease === 'taken') leased(this.#isWaiting ? 'lapsed' : 'taken')
    this.#isWaiting = false
    this.#waitsSinceMs = undefined
    return {
      kind: 'lead',
      end: reading => {
        this.#appending = this.#end(stream, head, reading, sample)
      }
    }
  }

  release (): void {
    this.#waitsSinceMs = undefined
    this.#sample = undefined
    this.#releaseLease().catch(() => {})
  }

  close (): void {
    this.#isClosed = true
    clearTimeout(this.#stopTimer)
    // Forgets the error too: a host that no longer follows lacks no digests.
    this.#releaseLease().catch(() => {}).finally(() => this.#options.link.forgetScriptError('tail'))
  }

  async #releaseLease (): Promise<void> {
    await this.#appending
    if (this.#options.link.isSteady) await this.#stream?.release()
  }

  /** Stops the other hosts too, because what all hosts have read is wrong; repeats until Redis has the stop. */
  stop (reason: string): void {
    if (this.#isStopped) return
    this.#isStopped = true
    const stream = this.#stream
    const stop = `${randomBytes(12).toString('base64url')} ${reason}`
    const store = (): void => {
      stream?.stop(stop).then(() => this.#options.announce(this.#source), () => {
        if (!this.#isClosed) this.#stopTimer = setTimeout(store, stopEveryMs).unref()
      })
    }
    store()
  }

  /**
   * True if other hosts have brought no fresh head for so long that this host reads for itself (law 6: the cache can
   * only help).
   */
  get #hasWaited (): boolean {
    const { now, maxAgeMs } = this.#options
    return this.#waitsSinceMs !== undefined && now() - this.#waitsSinceMs > Math.max(minWaitMs, 2 * maxAgeMs)
  }

  #noteAge (turn: TailTurn): void {
    const { now, maxAgeMs } = this.#options
    const isFresh = turn.kind === 'read' && turn.reading.stamped !== undefined && now() - turn.sentAtMs <= maxAgeMs
    if (isFresh) this.#waitsSinceMs = undefined
    else this.#waitsSinceMs ??= now()
  }

  #enter (space: string | undefined): void {
    const { link, prefix, form } = this.#options
    this.#space = space
    this.#stream = space === undefined ? undefined : new DigestStream(link, prefix, `${space}:${form}`, this.#source)
    this.#place = start
    this.#sample = undefined
    this.#isDrained = false
    this.#isWaiting = false
    this.#waitsSinceMs = undefined
    this.#knownStop = undefined
    this.#candidate = undefined
    this.#provenAtMs.clear()
  }

  /** Takes digests that follow a head; without a steady time of Redis their age is unknown. */
  async #take (
    head: FollowedHead | undefined,
    entries: readonly StreamEntry[],
    sample: SteadyTime | undefined
  ): Promise<TailTurn> {
    const { leased, mayBeOurs, requiresVerified } = this.#options
    const transactions: TransactionDigest[] = []
    let last = head
    let [stamped, askedAtMs]: [ResponsePosition | undefined, number] = [undefined, -Infinity]
    // Returns the proven digests; the next turn reads the other digests again.
    const taken = (): TailTurn => ({
      kind: 'read',
      reading: { result: 'ok', transactions, stamped },
      // Counts from before the command: Redis took its time no later than the reply, so the age is never too low.
      sentAtMs: sample === undefined
        ? -Infinity
        : sample.sentAtMs - (sample.timeMs - askedAtMs) - sample.slackMs
    })
    for (const { place, text } of entries) {
      const digest = parseDigest(text)
      const isUsable = digest !== undefined && !this.#isDistrusted(digest.source) &&
        (digest.isVerified || !requiresVerified) && (digest.stamped === undefined || mayBeOurs(digest.stamped)) &&
        endOf(digest).version === place.version
      if (!isUsable || !await this.#isProven(digest, sample)) {
        if (transactions.length > 0) return taken()
        // Passes an entry without a new transaction, or no later entry would ever be read.
        if (last !== undefined && place.version <= last.version) this.#place = place
        return alone
      }
      if (last === undefined) return beginAt(digest.after)
      const following = followingIn(digest, last)
      switch (following) {
        case 'different':
          this.#distrust(digest.source, `it has another root at version ${last.version}`, true)
          return alone
        case 'unknown':
        case 'gap':
          // Reads the missing transactions from an upstream, if no digest has been taken.
          return transactions.length > 0 ? taken() : alone
      }
      transactions.push(...following)
      last = following.at(-1) ?? last
      // Gives no age to a digest from the future.
      const isAgeKnown = sample !== undefined && digest.askedAtMs <= sample.timeMs
      stamped = isAgeKnown && endOf(digest).version === last.version ? digest.stamped : undefined
      askedAtMs = digest.askedAtMs
      this.#place = place
      if (stamped !== undefined && digest.source !== this.#source) this.#takenAtMs = this.#options.now()
      leased('waited')
    }
    return last === undefined ? wait : taken()
  }

  /** Shares the transactions that this host has read, or leaves the lease to another host, which may read faster. */
  async #end (
    stream: DigestStream,
    head: FollowedHead | undefined,
    reading: TailReading,
    { timeMs, receivedAtMs }: TimeSample
  ): Promise<void> {
    const { now, leased, maxAgeMs } = this.#options
    const readingMs = now() - receivedAtMs
    const isShared = await this.#append(stream, head, reading, timeMs, timeMs + leastOf(readingMs)).catch(() => {
      leased('failed')
      return false
    })
    // Leaves the lease: digests of a slow reader are too old for other hosts.
    if (isShared && readingMs <= maxAgeMs) return
    this.#yieldsUntilMs = now() + yieldMs
    await stream.release().catch(() => {})
  }

  /** Appends a reading; returns false if it brings other hosts nothing new or comes too late. */
  async #append (
    stream: DigestStream,
    head: FollowedHead | undefined,
    reading: TailReading,
    askedAtMs: number,
    earliestMs: number
  ): Promise<boolean> {
    const { requiresVerified, announce, leased } = this.#options
    const { result, stamped } = reading
    const last: FollowedHead | undefined = reading.transactions.at(-1) ?? head
    const isBehind = result === 'empty' && stamped === undefined
    if ((result !== 'ok' && result !== 'empty') || isBehind || last === undefined) return false
    const base = { source: this.#source, askedAtMs, stamped, isVerified: requiresVerified }
    const whole = encodeDigest(
      head === undefined
        ? { ...base, after: last, transactions: [] }
        : { ...base, after: head, transactions: reading.transactions }
    )
    const text = whole.length > maxTextLength ? encodeDigest({ ...base, after: last, transactions: [] }) : whole
    const place = await stream.append(this.#place, last.version, text, earliestMs, this.#knownStop ?? '')
    if (place === undefined) {
      // Refused append: another host has read on, or has stopped all hosts.
      leased('not_stored')
      return false
    }
    this.#place = place
    announce(this.#source)
    return true
  }

  /**
   * Returns the time of Redis with its possible error; undefined if Redis's clock fell behind the clock of this process
   * since the last turn, or if that turn is too long ago. A digest would then look younger than it is.
   */
  #steadyTime (sample: TimeSample): SteadyTime | undefined {
    const previous = this.#sample
    if (previous === undefined) return undefined
    const elapsedMs = sample.sentAtMs - previous.receivedAtMs
    if (
      elapsedMs > Math.max(minComparedMs, 2 * this.#options.maxAgeMs) ||
      sample.timeMs - previous.timeMs < leastOf(elapsedMs)
    ) return undefined
    // Allows for a step back within the delay of the last reply, which would make ages too low.
    const slackMs = previous.receivedAtMs - previous.sentAtMs + maxJitterMs + maxSlew * elapsedMs
    return { ...sample, slackMs }
  }

  /** Proves by a root what another host has read: before that host's first digest counts, and then at intervals. */
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
    if (this.#proving === undefined) return false
    // Limits the wait for a proof, so that an upstream that hangs delays only one turn.
    const leftMs = Math.max(0, maxProofMs - (this.#options.now() - this.#triedAtMs))
    return await withTimeout(leftMs, this.#proving) === true
  }

  /**
   * Compares a root with that of an upstream of this host; false if it is not proven. If the upstream is far ahead of
   * the expected ledger time, the other host lags.
   */
  async #prove ({ version, root, source }: Candidate, expectedUsec: bigint | undefined): Promise<boolean> {
    const { readRoot, now, space: presentSpace } = this.#options
    const space = this.#space
    const sentAtMs = now()
    const own = root === undefined ? undefined : await readRoot(version)
    if (own === undefined || space !== this.#space || space !== presentSpace()) return false
    this.#candidate = undefined
    if (own.root !== root) {
      this.#distrust(source, `an upstream of this host has another root at version ${version}`)
      return false
    }
    own.confirm()
    const passedUsec = BigInt(Math.round(1000 * (now() - sentAtMs)))
    const isBehind = expectedUsec !== undefined &&
      own.stamped.position.head.timestampUsec - expectedUsec - passedUsec > maxBehindUsec
    if (isBehind) {
      // Distrusts only at the second proof: after a silence of the chain, an upstream with the first new block is ahead
      // for a moment.
      if (this.#behindSource === source) this.#distrust(source, 'an upstream of this host is ahead of it')
      this.#behindSource = source
      return false
    }
    this.#behindSource = undefined
    this.#provenAtMs.set(source, now())
    dropOldest(this.#provenAtMs)
    return true
  }

  /** Takes no digests from a host for a time, because that host has read another chain or lags. */
  #distrust (source: string, reason: string, wasTaken = false): void {
    const { now, onDifferent } = this.#options
    const isKnown = this.#distrustedUntilMs.has(source)
    const wasProven = this.#provenAtMs.delete(source)
    this.#distrustedUntilMs.set(source, now() + distrustMs)
    dropOldest(this.#distrustedUntilMs)
    // Reports nothing about a host that was distrusted already and whose digests were not taken since.
    if (wasTaken || wasProven || !isKnown) onDifferent(reason)
  }

  #isDistrusted (source: string): boolean {
    return this.#options.now() < (this.#distrustedUntilMs.get(source) ?? -Infinity)
  }
}

/** Begins at a head that another process had; nothing before this head is known. */
function beginAt ({ version, root }: FollowedHead): TailTurn {
  const transactions = [{ version, root, hashes: undefined, touched: [], touchesAll: undefined }]
  return { kind: 'read', reading: { result: 'ok', transactions, stamped: undefined }, sentAtMs: -Infinity }
}

function endOf ({ after, transactions }: SentDigest): FollowedHead {
  return transactions.at(-1) ?? after
}

/** Returns the transactions of a digest after a head, or the reason why the digest does not follow the head. */
function followingIn (
  { after, transactions }: SentDigest,
  { version, root }: FollowedHead
): readonly TransactionDigest[] | 'gap' | 'different' | 'unknown' {
  if (after.version > version) return 'gap'
  const at = Number(version - after.version)
  const own: FollowedHead | undefined = at === 0 ? after : transactions[at - 1]
  // Takes nothing from a digest that ends before the head.
  if (own === undefined) return []
  if (own.root === root && root !== undefined) return transactions.slice(at)
  // Compares no root at a version that was stepped over, because it has none.
  return own.root === undefined || root === undefined ? 'unknown' : 'different'
}

/** Returns the least time that passes on a steady clock while the clock of this process passes `ms`. */
function leastOf (ms: number): number {
  return ms * (1 - maxSlew) - maxJitterMs
}

function dropOldest (map: Map<string, number>): void {
  const [oldest] = map.keys()
  if (map.size > maxSources && oldest !== undefined) map.delete(oldest)
}
