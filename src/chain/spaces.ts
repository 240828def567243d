import { type Position, type ResponsePosition } from '../api/position.js'
import { withTimeout } from '../with-timeout.js'
import { Anchors } from './anchors.js'
import {
  type ChainReader,
  type ComparedUpstream,
  compareChains,
  proveHead,
  relationOf,
  type UpstreamRelation
} from './chain-proof.js'
import { selfContradictionReason } from './quarantine.js'
import { Space, type SpaceRecord } from './space.js'
import {
  continues,
  KnownPlace,
  mayBeSameChain,
  mergeSpaces,
  newestOf,
  newerThan,
  replacedIn,
  type SpacePlace,
  successorOf
} from './space-places.js'
import { type Tracker, type ChainEvents } from './tracker.js'

/** An upstream to verify, which another chain may come from. */
export interface UnverifiedUpstream extends ComparedUpstream {
  /** Resolves with true if no other upstream responds that may be on our chain. */
  readonly isLastReachable: () => Promise<boolean>
  /**
   * Records that the upstream contradicts itself; returns true if it does so too often for a change to its chain.
   */
  readonly recordContradiction: () => boolean
  /** Records that the chain was changed to the upstream's. */
  readonly recordChange: () => void
}

/** Parts that choosing a space needs. */
export interface SpacesOptions {
  readonly tracker: Tracker
  /** Places that processes share; if two disagree, the earlier in this list decides. */
  readonly places: readonly SpacePlace[]
  /** Reads our chain from a verified upstream. */
  readonly reference: ChainReader & {
    /** Reads the head; undefined if no upstream responds. */
    readonly readHead: () => Promise<ResponsePosition | undefined>
  }
  readonly now: () => number
  readonly events: ChainEvents
}

type SpaceList = readonly SpaceRecord[]
type Verdict = 'same' | 'other' | 'unproven' | 'unknown'
type PlaceLists = ReadonlyMap<KnownPlace, SpaceList>

const renewAnchorsEveryMs = 10_000
// Delays the first record of a new process, which has stored little: older records already identify their spaces.
const firstRenewalMs = 2000
// Limits how much older than the last served position a position may be after a start with every upstream down.
const recordHeadEveryMs = 5000
// A failed read often succeeds soon after.
const retryMs = 1000
// Limits how long reads wait for the first proof of a new space; the space is shared once it can be proven.
const firstProofMs = 500
// Limits how long a slow upstream delays the purges of other replicas.
const maxSettleMs = 400
// A reset reaches upstreams one after another, so a difference is a conflict only after this long.
const conflictAfterMs = 10_000
// Each failed attempt means that another process purged everything meanwhile.
const maxReplaceAttempts = 20

const tooManyChangesReason = 'the chain changed five times within a minute, so the next change waits'

/** Chooses the space that keys name, and shares it with other processes (law 7: chains never mix). */
export class Spaces {
  readonly #options: SpacesOptions
  readonly #places: ReadonlyMap<SpacePlace, KnownPlace>
  // Verdicts on recorded spaces, by name; they stand until an upstream is verified.
  readonly #judged = new Map<string, Verdict>()
  readonly #conflicts = new Map<string, number>()
  #choosing: Promise<void> | undefined
  #settling: Promise<void> | undefined
  // True while the space comes from the places alone, because no upstream has responded since the start.
  #isRestored = false
  // True while a purge of everything is not in every place.
  #isReplacing = false
  #hasReset = false
  readonly #renewals = { headAtMs: Infinity, anchorsAtMs: Infinity }

  constructor (options: SpacesOptions) {
    this.#options = options
    this.#places = new Map(options.places.map(place => [place, new KnownPlace(place)]))
  }

  /** True if a place has our space: then every entry stored there under its name is of our chain and not purged. */
  isIn (place: SpacePlace): boolean {
    const { space } = this.#options.tracker
    return space !== undefined && this.#places.get(place)?.has(space) === true
  }

  /** Stops the use of a place that cannot be read, until it is read again: other processes may purge it meanwhile. */
  suspend (place: SpacePlace): void {
    this.#places.get(place)?.suspend()
  }

  /** True while a place cannot be read. */
  isSuspended (place: SpacePlace): boolean {
    return this.#places.get(place)?.isSuspended === true
  }

  /** True while other processes do not know of a purge of everything. */
  get isPurgeAllPending (): boolean {
    return this.#isReplacing
  }

  /**
   * Resolves with the relation of an upstream to our chain, and never changes the chain; undefined if no chain is
   * known.
   */
  async compare (compared: ComparedUpstream): Promise<UpstreamRelation | undefined> {
    const { tracker } = this.#options
    if (tracker.space?.chainId !== compared.stamped.position.chainId || this.#isRestored) return undefined
    this.#judged.clear()
    return await relationOf(compared, tracker)
  }

  /**
   * Resolves with a reason to quarantine an upstream, or undefined. Another chain replaces ours once no other upstream
   * on our chain responds.
   */
  async verifyChain (unverified: UnverifiedUpstream): Promise<string | undefined> {
    const { tracker } = this.#options
    const { stamped } = unverified
    const { chainId } = stamped.position
    // A restored chain yields to the chain of the upstream, because no upstream has confirmed the restored one.
    if (this.#isRestored && tracker.chainId !== chainId) {
      this.#isRestored = false
      tracker.clearSpace()
    }
    if (tracker.chainId !== undefined && tracker.chainId !== chainId) {
      return `it serves chain ${chainId}, not ${tracker.chainId}`
    }
    this.#judged.clear()
    const isChosen = tracker.space !== undefined && !this.#isRestored
    if (!isChosen) await this.#choose(unverified)
    else {
      const reason = await this.#followOrReject(unverified)
      if (reason !== undefined) return reason
    }
    const { space } = tracker
    if (isChosen && space?.isProvable === false) {
      const proof = proveHead(space, stamped, unverified, true)
      // After a reset the next verification waits for the proof, because only a proof exposes a lagging upstream of the
      // old chain.
      await (this.#hasReset ? proof : withTimeout(firstProofMs, proof))
    }
    this.#scheduleRenewals()
    return undefined
  }

  async #followOrReject (unverified: UnverifiedUpstream): Promise<string | undefined> {
    const relation = await relationOf(unverified, this.#options.tracker)
    switch (relation) {
      case 'same':
      case 'unproven':
        return undefined
      case 'genesis':
        return 'it stands at genesis, which proves no chain'
      case 'before':
        return 'it stands before every block that proves the chain: it is used once it has one of them'
      case 'older':
        return 'it serves an older chain with the same chain id: point it at the newer chain, or restart varve with ' +
          'upstreams of the older one only'
      case 'other':
        if (!await unverified.isLastReachable()) return 'it serves another chain with the same chain id'
        if (unverified.recordContradiction()) return selfContradictionReason
        if (!this.#options.tracker.reset(unverified.stamped)) return tooManyChangesReason
        unverified.recordChange()
        return undefined
    }
  }

  /** Reads a head or anchors that are due from a verified upstream. */
  async renewIfDue (stamped: ResponsePosition): Promise<void> {
    const { tracker: { space }, reference, places, now } = this.#options
    if (space === undefined || stamped.position.chainId !== space.chainId) return
    const areAnchorsDue = now() >= this.#renewals.anchorsAtMs
    if (!areAnchorsDue && now() < this.#renewals.headAtMs) return
    this.#renewals.headAtMs = now() + (places.length > 0 ? recordHeadEveryMs : renewAnchorsEveryMs)
    if (areAnchorsDue) this.#renewals.anchorsAtMs = now() + renewAnchorsEveryMs
    if (!await proveHead(space, stamped, reference, areAnchorsDue)) {
      this.#renewals.headAtMs = now() + retryMs
      if (areAnchorsDue) this.#renewals.anchorsAtMs = now() + retryMs
    }
  }

  /**
   * Records the newest head before this process stops, so that the next process can prove all entries that were stored.
   */
  async recordLast (): Promise<void> {
    const { tracker: { space, stamped }, reference, places } = this.#options
    if (places.length === 0 || this.#isRestored || space === undefined || stamped === undefined) return
    await withTimeout(firstProofMs, proveHead(space, stamped, reference, false))
    await this.settle()
  }

  /** Drops what was known of the replaced chain, and looks in the places for the space of the new chain. */
  recordReset (): void {
    const { tracker: { space }, events } = this.#options
    this.#hasReset = true
    this.#judged.clear()
    this.#isReplacing = false
    Object.assign(this.#renewals, { headAtMs: Infinity, anchorsAtMs: Infinity })
    if (space !== undefined) events.spaceChanged.publish(space)
    this.settle().catch(() => {})
  }

  /** Resolves when no choice is in progress. */
  async waitUntilChosen (): Promise<void> {
    await this.#choosing
  }

  /**
   * Follows the places and records what they lack, in a run that begins after the call. A comparison that takes longer
   * than `maxMs` goes on in the background.
   */
  async settle (maxMs = maxSettleMs): Promise<void> {
    await withTimeout(maxMs, this.#settleAfter(this.#settling))
  }

  async #settleAfter (running: Promise<void> | undefined): Promise<void> {
    await running?.catch(() => {})
    this.#settling ??= this.#settleOnce().finally(() => {
      this.#settling = undefined
    })
    await this.#settling
  }

  /**
   * Purges everything: keys name a new space at once, which contains no earlier entry. Resolves with true if every
   * place has the new space.
   */
  async replaceAll (): Promise<boolean> {
    this.#beginReplacement([...this.#places.values()].map(({ list }) => list))
    return await this.#placeReplacement()
  }

  /**
   * Restores the last known chain while no upstream responds, unless two chains are possible (law 7: chains never mix).
   */
  async restore (): Promise<void> {
    const { tracker, places } = this.#options
    if (tracker.space !== undefined || places.length === 0) return
    const remembered = (await Promise.all(places.map(async place => await place.remembered().catch(() => []))))
      .flat().filter(({ chainId }) => tracker.chainId === undefined || tracker.chainId === chainId)
    const [chainId, ...others] = new Set(remembered.map(({ chainId }) => chainId))
    if (chainId === undefined || others.length > 0) return
    const records = mergeSpaces([...(await this.#readPlaces(chainId)).values()])
    const newest = newestOf(records)[0]
    if (newest === undefined || tracker.space !== undefined) return
    if (!remembered.every(({ name }) => continues(newest, name, records))) return
    this.#isRestored = true
    this.#use(Space.from(newest), newest.head, false)
  }

  async #choose (unverified: UnverifiedUpstream): Promise<void> {
    this.#choosing ??= this.#chooseOnce(unverified).finally(() => {
      this.#choosing = undefined
    })
    await this.#choosing
  }

  async #chooseOnce (unverified: UnverifiedUpstream): Promise<void> {
    const { tracker } = this.#options
    const { stamped } = unverified
    const { chainId } = stamped.position
    const restored = tracker.space
    const lists = await this.#readPlaces(chainId)
    const records = mergeSpaces([...lists.values(), restored === undefined ? [] : [restored.record]])
    const proven = await this.#firstProven(newestOf(records), stamped.position, unverified)
    if (tracker.space !== restored) return
    // Throws, so the upstream stays unverified: the restored space is kept until it can be compared.
    if (proven === 'unknown' && restored !== undefined) throw new Error('the restored chain cannot be compared now')
    this.#isRestored = false
    const known = proven === 'unknown' ? undefined : proven
    if (restored !== undefined && restored.name === known?.name) return
    // A restored chain that no record continues was reset while no upstream responded.
    if (restored !== undefined && known === undefined && tracker.reset(stamped)) return
    const space = known === undefined ? Space.begin(chainId) : Space.from(known)
    // Without a proof no other process could use the space, and no reset to a longer chain would be seen.
    if (proven !== 'unknown' && !space.isProvable) {
      await withTimeout(firstProofMs, proveHead(space, stamped, unverified, true))
      if (tracker.space !== restored) return
    }
    this.#use(space, known?.head ?? stamped, false)
    if (proven === 'unknown') return
    // No read waits for a slow place.
    await withTimeout(firstProofMs, this.#record(space, lists, records.length === 0)).catch(() => {})
  }

  async #settleOnce (): Promise<void> {
    const { tracker, reference } = this.#options
    const own = tracker.space
    if (own === undefined) return
    const lists = await this.#readPlaces(own.chainId)
    if (tracker.space !== own) return
    if (this.#isReplacing) {
      await this.#placeReplacement()
      return
    }
    const records = mergeSpaces([...lists.values()])
    const isReplaced = replacedIn(records).has(own.name)
    const newest = newestOf(records)
    const newer = isReplaced ? newest : newerThan(own, newest)
    const successor = successorOf(own, newer)
    // Leaves a replaced space before any upstream is asked, so that nothing of it is served meanwhile.
    if (isReplaced && successor === undefined) return this.#use(own.successor([own.name]), undefined, true)
    if (this.#isRestored) {
      // Applies a purge of everything even while no upstream can prove the chain.
      if (successor !== undefined) this.#use(Space.from(successor), successor.head, true)
      return
    }
    this.#learn(own, records)
    const isAsked = successor === undefined && newer.length > 0
    const now = isAsked ? await reference.readHead().catch(() => undefined) : undefined
    const proven = isAsked ? await this.#firstNewer(newer, now?.position) : successor
    if (tracker.space !== own || proven === 'unknown') return
    if (proven === undefined) return await this.#record(own, lists)
    const isSameChain = await this.#isContinuedBy(own, proven, now?.position)
    if (tracker.space !== own || (!isSameChain && !tracker.beginChange())) return
    const space = Space.from(proven)
    if (isSameChain) space.add(own.anchors)
    this.#use(space, proven.head, isSameChain)
    if (!isSameChain) this.#options.events.reset.publish({ from: own.name, by: 'peer' })
    await this.#record(space, lists)
  }

  /** Learns what other processes recorded of our space, so that this process need not read the same from upstreams. */
  #learn (own: Space, records: SpaceList): void {
    const { tracker } = this.#options
    const shared = records.find(({ name }) => name === own.name)
    if (shared === undefined || (shared.head !== undefined && !tracker.mayBeOurs(shared.head.position))) return
    if (own.add(shared.anchors)) this.#delay('anchorsAtMs', renewAnchorsEveryMs)
    if (shared.head === undefined) return
    if (own.prove({ stamped: shared.head, root: shared.root })) this.#delay('headAtMs', recordHeadEveryMs)
    tracker.learnProven(shared.head)
  }

  // Draws a random delay, so that few of many processes take over at once when the process that records is gone.
  #delay (renewal: 'headAtMs' | 'anchorsAtMs', ms: number): void {
    this.#renewals[renewal] = Math.max(this.#renewals[renewal], this.#options.now() + ms * (1 + Math.random()))
  }

  async #firstNewer (newer: SpaceList, position: Position | undefined): Promise<SpaceRecord | 'unknown' | undefined> {
    if (position === undefined) return 'unknown'
    const proven = await this.#firstProven(newer, position, this.#options.reference)
    const isShared = this.#options.places.some(place => this.isIn(place))
    if (proven === undefined && isShared) this.#noteConflict(newer)
    return proven
  }

  /** Reports a newer space of another chain, once, when it has stayed for some time. */
  #noteConflict ([newest]: SpaceList): void {
    if (newest === undefined) return
    const since = this.#conflicts.get(newest.name) ?? this.#options.now()
    if (!this.#conflicts.has(newest.name)) this.#conflicts.clear()
    this.#conflicts.set(newest.name, since)
    if (this.#options.now() - since < conflictAfterMs) return
    this.#conflicts.set(newest.name, Infinity)
    this.#options.events.conflictingChain.publish(newest.name)
  }

  async #firstProven (
    candidates: SpaceList,
    position: Position,
    reader: ChainReader
  ): Promise<SpaceRecord | 'unknown' | undefined> {
    for (const candidate of candidates) {
      const verdict = await this.#judge(candidate, position, reader)
      if (verdict === 'same') return candidate
      if (verdict === 'unknown') return verdict
    }
    return undefined
  }

  async #judge (record: SpaceRecord, position: Position, reader: ChainReader): Promise<Verdict> {
    const known = this.#judged.get(record.name)
    if (known !== undefined) return known
    const verdict = await compareChains(record, position, reader).catch(() => 'unknown' as const)
    if (verdict === 'other' || verdict === 'unproven') this.#judged.set(record.name, verdict)
    return verdict
  }

  /** Returns true if a proven space is of the chain that we serve, so that our position stays. */
  async #isContinuedBy (own: Space, proven: SpaceRecord, position: Position | undefined): Promise<boolean> {
    const { tracker, reference } = this.#options
    if (proven.head !== undefined && !tracker.mayBeOurs(proven.head.position)) return false
    // A space without any proof was begun for the chain of the upstream that has just proven the other space.
    if (!own.isProvable) return true
    const shared = new Anchors(own.anchors).isSameChain(proven.anchors)
    if (shared !== undefined && (shared === false || proven.replaces.includes(own.name))) return shared
    if (position === undefined) return shared === true
    const relation = await compareChains({ ...own.record, head: tracker.stamped }, position, reference).catch(
      () => 'unproven'
    )
    return relation === 'same' || (relation === 'unproven' && shared === true)
  }

  #use (space: Space, head: ResponsePosition | undefined, isSameChain: boolean): void {
    const { tracker, events } = this.#options
    this.#judged.clear()
    for (const place of this.#places.values()) place.use(space)
    tracker.setSpace(space, head, isSameChain)
    events.spaceChanged.publish(space)
    this.#scheduleRenewals()
  }

  #beginReplacement (lists: readonly SpaceList[]): void {
    const { tracker } = this.#options
    const own = tracker.space
    if (own === undefined) return
    this.#isReplacing = this.#options.places.length > 0
    const replaced = lists.flat().filter(record => mayBeSameChain(record, own.record)).map(({ name }) => name)
    this.#use(own.successor([own.name, ...replaced]), undefined, true)
  }

  /**
   * Records a replacement in every place; begins another replacement if a place has a space that the first does not
   * replace.
   */
  async #placeReplacement (): Promise<boolean> {
    const { tracker } = this.#options
    for (let attempt = 0; attempt < maxReplaceAttempts; attempt++) {
      const own = tracker.space
      if (own === undefined) return false
      const missing = [...this.#places.values()].filter(place => !place.has(own))
      const lists = await Promise.all(missing.map(async place => await place.put(own, true)))
      if (tracker.space !== own) continue
      const refusing = lists.flatMap(list => list?.every(({ name }) => name !== own.name) === true ? [list] : [])
      if (refusing.length > 0) {
        this.#beginReplacement(refusing)
        continue
      }
      this.#isReplacing = ![...this.#places.values()].every(place => place.has(own))
      return !this.#isReplacing
    }
    return false
  }

  /**
   * Records our space in each place that lacks it or has it outdated. The first record of a space skips each place that
   * has another space; the next run compares the two.
   */
  async #record (own: Space, lists: PlaceLists, isFirst = false): Promise<void> {
    await Promise.all([...lists].map(async ([place, list]) => {
      const isKnown = list.some(({ name }) => name === own.name)
      if (isKnown) place.use(own)
      if (isKnown ? place.isOutdated(own) : own.isProvable) await place.put(own, isFirst)
    }))
  }

  /** Reads the lists of the places that can be read, and restores the records that a place has lost. */
  async #readPlaces (chainId: number): Promise<PlaceLists> {
    const lists = await Promise.all(
      [...this.#places.values()].map(async place => [place, await place.read(chainId)] as const)
    )
    return new Map(lists.filter((read): read is [KnownPlace, SpaceList] => read[1] !== undefined))
  }

  #scheduleRenewals (): void {
    const soonMs = this.#options.now() + firstRenewalMs
    this.#renewals.headAtMs = Math.min(this.#renewals.headAtMs, soonMs)
    this.#renewals.anchorsAtMs = Math.min(this.#renewals.anchorsAtMs, soonMs)
  }
}
