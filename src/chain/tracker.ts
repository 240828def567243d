import { Space } from './space.js'
import {
  compareBigInts,
  type Head,
  isSamePosition,
  type Oldest,
  type Position,
  type ResponsePosition
} from '../api/position.js'
import { type LedgerStamp } from '../upstreams/ranking.js'
import { TypedEvent } from '../typed-event.js'

// A head above the newest known one by more than either limit needs a proof: after a false head, all true positions
// would look old.
const maxUnprovenVersions = 10_000n
const maxUnprovenUsec = 60_000_000n
// Limits changes of chain within a time span, whatever upstreams and replicas say (law 10: nothing grows without
// bound); purges by hand do not count.
const maxChanges = 5
const changesSpanMs = 60_000

/** Relation of a response's position to the served head. */
export type PositionRelation = 'ahead' | 'behind' | 'reset' | 'other_chain'

/** Key with which clients encrypt transactions of an epoch. */
export interface EncryptionKey {
  readonly epoch: bigint
  readonly text: string
}

/** Heads that several processes serve together: no process serves a head that another lacks. */
export interface SharedHeads {
  /**
   * Returns true if every live process serves this version or a later one from now on; always true without a version.
   */
  has(version: bigint | undefined): boolean
  /** Fault as a readable sentence; `isServing` is false while every read is 503. */
  readonly fault: { readonly text: string, readonly isServing: boolean } | undefined
  /** Waits until `has` is true; rejects with a 503 if that takes too long, or if this process must catch up first. */
  reach(version: bigint | undefined): Promise<void>
}

/**
 * Tracks the position that this process serves, which never goes back on one chain (law 4: headers are the present,
 * bodies are the past).
 */
export class Tracker {
  readonly #now: () => number
  readonly #events: ChainEvents
  readonly #configuredId: number | undefined
  #chainId: number | undefined
  #space: Space | undefined
  readonly #isShared: boolean
  // Times of the last changes of chain.
  #changedAtMs: readonly number[] = []
  #served: ResponsePosition | undefined
  // Head that all processes have, while some may lack the newest head.
  #held: ResponsePosition | undefined
  #sharedHeads: SharedHeads | undefined
  #learnedAtMs = -Infinity
  #movedAtMs = -Infinity
  #peerHeadAtMs = -Infinity
  #oldest: Oldest | undefined
  #isFollowing = false
  // Head after a proven jump, until a response raises the newest known head to it.
  #proven: Head | undefined
  // Newest head that a response carried, while the followed head is served.
  #newest: ResponsePosition | undefined
  #encryptionKey: EncryptionKey | undefined

  /**
   * A configured chain id overrides upstreams; else the first response decides. If processes share a place, no space is
   * known before it is chosen.
   */
  constructor (
    chainId: number | undefined,
    now: () => number,
    events = new ChainEvents(),
    isShared = false
  ) {
    this.#configuredId = chainId
    this.#chainId = chainId
    this.#now = now
    this.#events = events
    this.#isShared = isShared
    this.#beginSpace()
  }

  /** Space that keys name; undefined until it is known. */
  get space (): Space | undefined {
    return this.#space
  }

  /** True while keys name this space: no reset and no purge of everything has begun another since. */
  isCurrent (space: Space): boolean {
    return this.#space === space
  }

  /** Chain id from the configuration. */
  get configuredId (): number | undefined {
    return this.#configuredId
  }

  /** Chain id, configured or learned, with or without a space. */
  get chainId (): number | undefined {
    return this.#chainId
  }

  /** Position sent to clients. */
  get position (): Position | undefined {
    return this.stamped?.position
  }

  /** Position with the family of header names that carried it. */
  get stamped (): ResponsePosition | undefined {
    return this.#held ?? this.#served
  }

  /** Newest head that this process would serve. If heads are shared, clients get it once all processes have it. */
  get known (): ResponsePosition | undefined {
    return this.#served
  }

  /** Undefined if each process serves the heads that it knows. */
  get sharedHeads (): SharedHeads | undefined {
    return this.#sharedHeads
  }

  /** Serves heads together with other processes from now on. */
  join (sharedHeads: SharedHeads): void {
    this.#sharedHeads = sharedHeads
  }

  /** Serves this head until the next call, even if a newer head is known; undefined serves the newest known head. */
  hold (stamped: ResponsePosition | undefined): void {
    this.#held = stamped && this.#withOldest(stamped)
    this.#events.servedHeadAdvanced.publish()
  }

  /** True while a head is held; a change of chain ends that. */
  get isHeld (): boolean {
    return this.#held !== undefined
  }

  /** Prefix of the upstream's own header names, once learned. */
  get family (): string | undefined {
    return this.#served?.family
  }

  /** Newest known key of an epoch; it is never sent with a position of another epoch. */
  get encryptionKey (): EncryptionKey | undefined {
    return this.#encryptionKey
  }

  /** Milliseconds since a response last confirmed the position. */
  get ageMs (): number {
    return this.#now() - this.#learnedAtMs
  }

  /** Milliseconds since the served head last moved. */
  get headAgeMs (): number {
    return this.#now() - this.#movedAtMs
  }

  /** Milliseconds since a peer last reported a head that was new here. */
  get peerHeadAgeMs (): number {
    return this.#now() - this.#peerHeadAtMs
  }

  /** Ledger time of the served head, and the age of that head; undefined before the first. */
  get servedStamp (): LedgerStamp | undefined {
    const served = this.#served?.position
    return served && { timestampUsec: served.head.timestampUsec, ageMs: this.headAgeMs }
  }

  /** Learns the position of a new response. */
  learn (position: Position, family: string, encryptionKey?: string): PositionRelation {
    this.#chainId ??= position.chainId
    this.#beginSpace()
    if (position.chainId !== this.#chainId) return 'other_chain'
    const served = this.#served?.position
    const stamped = encryptionKey === undefined ? { position, family } : { position, family, encryptionKey }
    if (served === undefined || !contradicts(position, served)) {
      this.#learnEncryptionKey(stamped)
      if (served !== undefined && position.head.version < served.head.version) return 'behind'
      this.#learnedAtMs = this.#now()
      if (!this.#isFollowing) this.#advanceTo(stamped)
      else if (position.head.version > (this.#newest?.position.head.version ?? -1n)) this.#newest = stamped
      return 'ahead'
    }
    // Of two chains with the same chain id, the newer has the later time ("Chains and resets").
    if (position.head.timestampUsec < served.head.timestampUsec) return 'other_chain'
    return this.reset(stamped) ? 'reset' : 'other_chain'
  }

  /**
   * Serves the followed head, so that positions of other responses no longer raise the served head. Undefined ends
   * that, and serves the newest head learned meanwhile.
   */
  follow (stamped: ResponsePosition | undefined): void {
    this.#isFollowing = stamped !== undefined
    if (stamped === undefined) {
      const newest = this.#newest
      this.#newest = undefined
      if (newest !== undefined) this.show(newest)
    } else if (stamped.position.head.version > (this.#served?.position.head.version ?? -1n)) {
      this.#learnEncryptionKey(stamped)
      this.#serve(this.#withOldest(stamped))
      this.#events.servedHeadAdvanced.publish()
    }
  }

  /** Raises the served head to one that a client sees (law 4: headers are the present, bodies are the past). */
  show (stamped: ResponsePosition): void {
    const served = this.#served?.position
    if (served !== undefined && contradicts(stamped.position, served)) return
    if (stamped.position.head.version > (served?.head.version ?? -1n)) this.#advanceTo(stamped)
  }

  /** Newest known head of the chain, served or not. */
  get newestHead (): Position['head'] | undefined {
    const newest = this.#newest?.position.head
    const served = this.#served?.position.head
    return newest !== undefined && served !== undefined && newest.version > served.version ? newest : served
  }

  /** Returns true for a position so far above the newest known head that one response does not prove it. */
  isJump ({ head }: Position): boolean {
    const newest = this.newestHead
    return newest !== undefined && isJump(head, newest) && (this.#proven === undefined || isJump(head, this.#proven))
  }

  /** Believes positions near this one from now on. The response with this position is learned later. */
  believe ({ head }: Position): void {
    this.#proven = head
  }

  /** Returns false for a position that contradicts our chain (law 7: chains never mix). */
  mayBeOurs (position: Position): boolean {
    const served = this.#served?.position
    return position.chainId === this.#chainId && (served === undefined || !contradicts(position, served))
  }

  /** Learns a head that a peer reports. */
  learnOfPeer (stamped: ResponsePosition): void {
    const before = this.#served?.position.head.version
    if (!this.learnProven(stamped)) return
    if (before === undefined || stamped.position.head.version > before) this.#peerHeadAtMs = this.#now()
  }

  /** Learns a position proven by another peer or a stored entry; returns false if it contradicts our chain. */
  learnProven (stamped: ResponsePosition): boolean {
    const { position } = stamped
    if (!this.mayBeOurs(position)) return false
    this.#learnEncryptionKey(stamped)
    const served = this.#served?.position
    if (served === undefined || position.head.version > served.head.version) {
      this.#serve(this.#withOldest(stamped))
      this.#events.servedHeadAdvanced.publish()
    }
    return true
  }

  /**
   * Counts a change of chain from any source; returns false if the last minute had five, so that the change must wait.
   */
  beginChange (): boolean {
    const now = this.#now()
    const recent = this.#changedAtMs.filter(atMs => now - atMs < changesSpanMs)
    if (recent.length >= maxChanges) return false
    this.#changedAtMs = [...recent, now]
    return true
  }

  /** Begins a new space after a chain reset; returns false if the change must wait. */
  reset (stamped: ResponsePosition): boolean {
    if (!this.beginChange()) return false
    const before = this.#space
    // Keeps the names that a pending purge of everything replaces, so that they stay unused even if the old chain comes
    // back.
    this.#space = Space.begin(stamped.position.chainId, before?.replaces)
    this.#clearPosition()
    this.#learnedAtMs = this.#now()
    this.#learnEncryptionKey(stamped)
    this.#events.reset.publish({ from: before?.name, by: 'response' })
    this.#advanceTo(stamped)
    return true
  }

  /** Sets the space that keys name; another chain drops the served head. */
  setSpace (space: Space, head: ResponsePosition | undefined, isSameChain: boolean): void {
    this.#chainId = space.chainId
    this.#space = space
    if (!isSameChain) this.#clearPosition()
    if (head !== undefined) this.learnProven(head)
  }

  /** Drops a restored chain that proved wrong; a configured chain id stays. */
  clearSpace (): void {
    this.#chainId = this.#configuredId
    this.#space = undefined
    this.#clearPosition()
  }

  /** Sets the start of the history that live upstreams serve; all served positions carry it. */
  setOldest (oldest: Oldest): void {
    this.#oldest = oldest
    if (this.#served !== undefined) this.#served = this.#withOldest(this.#served)
    if (this.#held !== undefined) this.#held = this.#withOldest(this.#held)
  }

  #serve (stamped: ResponsePosition): void {
    // Keeps the object of an equal position, because the headers printed for that object are sent again.
    if (this.#served !== undefined && isSameStamp(stamped, this.#served)) return
    if (stamped.position.head.version !== this.#served?.position.head.version) this.#movedAtMs = this.#now()
    this.#served = stamped
  }

  #clearPosition (): void {
    this.#served = undefined
    this.#held = undefined
    this.#peerHeadAtMs = -Infinity
    this.#newest = undefined
    this.#proven = undefined
    this.#isFollowing = false
    this.#oldest = undefined
    this.#encryptionKey = undefined
  }

  // Ignores the key of an older head in another epoch, so that an upstream that lags never replaces a newer key.
  #learnEncryptionKey ({ position: { head }, encryptionKey: text }: ResponsePosition): void {
    const { epoch } = head
    if (text === undefined || epoch === undefined) return
    const served = this.#served?.position.head
    if (served !== undefined && head.version < served.version && epoch !== served.epoch) return
    if (this.#encryptionKey?.epoch !== epoch || this.#encryptionKey.text !== text) this.#encryptionKey = { epoch, text }
  }

  #withOldest (stamped: ResponsePosition): ResponsePosition {
    const oldest = this.#oldest
    if (oldest === undefined || oldest.version === stamped.position.oldest.version) return stamped
    // Ignores an oldest version above the served head: it belongs to a later head.
    if (oldest.version > stamped.position.head.version) return stamped
    return { ...stamped, position: { ...stamped.position, oldest } }
  }

  #beginSpace (): void {
    if (!this.#isShared && this.#chainId !== undefined) this.#space ??= Space.begin(this.#chainId)
  }

  #advanceTo (stamped: ResponsePosition): void {
    const before = this.#served?.position.head.version
    const served = this.#withOldest(stamped)
    this.#serve(served)
    if (before !== undefined && stamped.position.head.version <= before) return
    this.#events.headAdvanced.publish(served)
    this.#events.servedHeadAdvanced.publish()
  }
}

function isSameStamp (a: ResponsePosition, b: ResponsePosition): boolean {
  return a.family === b.family && a.encryptionKey === b.encryptionKey && isSamePosition(a.position, b.position)
}

/**
 * Returns true if two positions exclude one chain, because version and time rise together (law 7: chains never mix).
 * Blocks may share a time.
 */
export function contradicts (a: Position, b: Position): boolean {
  const versions = compareBigInts(a.head.version, b.head.version)
  const times = compareBigInts(a.head.timestampUsec, b.head.timestampUsec)
  return versions * times < 0 || (versions === 0 && times !== 0)
}

/** Returns true if a head is so far above another that one response does not prove it. */
export function isJump (head: Head, from: Head): boolean {
  return head.version > from.version + maxUnprovenVersions || head.timestampUsec > from.timestampUsec + maxUnprovenUsec
}

/** Returns true if two responses at the same time state the same position, give or take some blocks. */
export function isNear (a: Position, b: Position): boolean {
  return a.chainId === b.chainId && !contradicts(a, b) && !isJump(a.head, b.head) && !isJump(b.head, a.head)
}

/** Events about the chain that keys name and about its head; `app/event-reactions.ts` lists who reacts. */
export class ChainEvents {
  /** Another chain with the same chain id replaced ours, in the space `from`; a response or another peer proved it. */
  readonly reset = new TypedEvent<{ readonly from: string | undefined, readonly by: 'response' | 'peer' }>()
  /** Keys name this space from now on. */
  readonly spaceChanged = new TypedEvent<Space>()
  /** Peers that share this Redis read another chain with the same chain id, in the space of this name. */
  readonly conflictingChain = new TypedEvent<string>()
  /** A response of an upstream moved the position forward. */
  readonly headAdvanced = new TypedEvent<ResponsePosition>()
  /** The served head moved forward, by a response or by another peer. */
  readonly servedHeadAdvanced = new TypedEvent()
}
