import { type ResponsePosition, type Position } from '../api/position.js'
import { withTimeout } from '../with-timeout.js'
import { PurgeAll } from './purge-all.js'
import { lastGenerationOfUpstreams } from './generation-candidates.js'
import { ChainComparer, type ComparisonResult } from './chain-comparer.js'
import { type RegisteredGenerations } from './generation-registry.js'
import {
  type ComparedUpstream,
  type GenerationDependencies,
  type UnverifiedUpstream
} from './generation-dependencies.js'
import { GenerationAdopter } from './generation-adopter.js'
import { AnchoredChain } from './anchored-chain.js'
import { selfContradictionReason } from './self-contradictions.js'
import { chooseGeneration } from './generation-choice.js'
import { type GenerationRecord, type UpstreamChain } from './generation-record.js'

const renewEveryMs = 10_000
// A new process has little to lose yet: anchors that other replicas published already identify their generations.
const firstRenewalMs = 2000
// A failed read often succeeds soon after.
const retryMs = 1000

const tooManyChangesReason = 'the chain changed five times within a minute, so the next change waits'

// Limits how long a slow upstream delays the purges of other replicas.
const maxFollowMs = 400

/**
 * Chooses the generation that keys name, and maintains the anchors by which its chain is recognised (law 7: chains
 * never mix).
 */
export class Generations {
  readonly #dependencies: GenerationDependencies
  readonly #ownChain: AnchoredChain
  readonly #generationAdopter: GenerationAdopter
  readonly #purgeAll: PurgeAll
  // True if the registry was readable when the generation was chosen.
  #isAgreed: boolean
  // A reset rules out every generation up to this number.
  #ruledOutUpTo = 0
  #choosing: Promise<void> | undefined
  // False while another chain may have published a record under our number.
  #isConfirmed = true
  #following: Promise<void> | undefined
  #resetCount = 0
  // Set while keys name a generation restored from upstream records; `isRememberedOnly` where the registry lacks it.
  #restored: { readonly isRememberedOnly: boolean } | undefined
  readonly #anchorRenewal: AnchorRenewal
  readonly #comparison: ChainComparer

  constructor (dependencies: GenerationDependencies) {
    this.#dependencies = dependencies
    this.#ownChain = new AnchoredChain(dependencies)
    this.#anchorRenewal = new AnchorRenewal(this.#ownChain, dependencies.now)
    this.#comparison = new ChainComparer(
      dependencies.tracker,
      this.#ownChain,
      () => `${dependencies.tracker.generation} ${this.#resetCount}`
    )
    this.#generationAdopter = new GenerationAdopter(dependencies, this.#ownChain, this)
    this.#purgeAll = new PurgeAll(dependencies, this)
    this.#isAgreed = dependencies.registry === undefined
  }

  /** Anchors and head of our own generation. */
  get ownRecord (): GenerationRecord {
    return { anchors: this.#ownChain.anchors, head: this.#dependencies.tracker.stamped }
  }

  /** False while another chain may have this number, or before our own number is claimed (law 7: chains never mix). */
  get isAgreed (): boolean {
    return this.#isAgreed && this.#isConfirmed && !this.#purgeAll.isPending
  }

  /** True while the other replicas do not know of a purge of everything. */
  get isPurgeAllPending (): boolean {
    return this.#purgeAll.isPending
  }

  /** Resolves with the relation of an upstream to our chain without any decision; undefined where none is known. */
  async compare (compared: ComparedUpstream): Promise<ComparisonResult | undefined> {
    const { tracker } = this.#dependencies
    const { position } = compared.stamped
    if (tracker.chain?.id !== position.chainId || this.#restored !== undefined) return undefined
    this.#generationAdopter.retryRejected()
    return await this.#comparison.compare(compared)
  }

  /**
   * Resolves with a reason to quarantine an upstream, or undefined. Another chain replaces ours once no other upstream
   * on our chain responds.
   */
  async verifyChain (unverified: UnverifiedUpstream): Promise<string | undefined> {
    const { tracker } = this.#dependencies
    const { stamped, isLastReachable } = unverified
    // A restored chain is only a memory, so it yields to the upstream's response.
    const restored = this.#restored
    this.#restored = undefined
    if (restored !== undefined && tracker.chainId !== stamped.position.chainId) {
      tracker.clearChain()
      this.#ownChain.replace([])
    }
    if (tracker.chainId !== undefined && tracker.chainId !== stamped.position.chainId) {
      return `it serves chain ${stamped.position.chainId}, not ${tracker.chainId}`
    }
    this.#generationAdopter.retryRejected()
    if (tracker.chain === undefined) await this.choose(stamped)
    else {
      const result = await this.#comparison.compare(unverified, restored?.isRememberedOnly)
      if (result === 'genesis') return 'it stands at genesis, which proves no chain'
      if (result === 'older') return 'it serves an older chain with the same chain id'
      if (result === 'other' && !await isLastReachable()) return 'it serves another chain with the same chain id'
      if (result === 'other') {
        if (unverified.recordContradiction()) return selfContradictionReason
        if (!await this.resetChain(stamped)) return tooManyChangesReason
        unverified.recordChange()
      }
    }
    // Reads anchors before the next verification: a lagging upstream of the old chain differs in nothing else.
    if (this.#resetCount > 0 && this.#ownChain.anchors.length === 0) {
      await this.#ownChain.readAnchors(stamped.position, unverified.readBlock)
    }
    this.#anchorRenewal.schedule()
    return undefined
  }

  /** Reads anchors that are due, at a position of a verified upstream. */
  async renewAnchors ({ position }: ResponsePosition): Promise<void> {
    if (position.chainId === this.#dependencies.tracker.chainId) await this.#anchorRenewal.renewIfDue(position)
  }

  /**
   * Drops the anchors after a chain reset, and chooses a generation; without a registry the tracker has already begun
   * a new one.
   */
  recordReset (stamped: ResponsePosition): void {
    const { tracker, registry, events } = this.#dependencies
    this.#ownChain.replace([])
    this.#anchorRenewal.cancel()
    this.#resetCount++
    if (registry === undefined) return events.generationChanged.publish(tracker.generation)
    this.#ruledOutUpTo = tracker.generation
    // Waits for the choice for the old chain, whose result is discarded.
    const earlier = this.#choosing ?? Promise.resolve()
    this.#trackChoice(earlier.then(async () => {
      await this.#chooseOnce(stamped)
    })).catch(() => {})
  }

  /** Chooses the generation of an upstream's chain; concurrent callers share one choice. */
  async choose (stamped: ResponsePosition): Promise<void> {
    await (this.#choosing ?? this.#trackChoice(this.#chooseOnce(stamped)))
  }

  /** Resolves when no choice is in progress. */
  async waitUntilChosen (): Promise<void> {
    await this.#choosing
  }

  /** Follows the registry, and claims a pending purge of everything. A slow comparison goes on beside later calls. */
  async applyRegistryState (state: RegisteredGenerations): Promise<void> {
    const { tracker } = this.#dependencies
    if (tracker.chain === undefined) return
    this.#isConfirmed = this.#generationAdopter.isOwnRecord(state.generations.get(tracker.generation))
    this.#following ??= this.#follow(state).finally(() => {
      this.#following = undefined
    })
    await withTimeout(maxFollowMs, this.#following)
    if (this.#isAgreed && this.isPurgeAllPending) await this.#purgeAll.claim()
  }

  async #follow (state: RegisteredGenerations): Promise<void> {
    if (this.#isAgreed) return await this.#generationAdopter.apply(state)
    const now = await this.#dependencies.readHead() ?? this.#dependencies.tracker.stamped
    if (now !== undefined) await this.choose(now)
  }

  /**
   * Restores the chain that upstreams last had while no upstream responds, unless two chains are possible (law 7:
   * chains never mix).
   */
  restoreChain (chainId: number, upstreams: readonly UpstreamChain[], state: RegisteredGenerations): void {
    const { tracker } = this.#dependencies
    if (tracker.chain !== undefined || (tracker.chainId !== undefined && tracker.chainId !== chainId)) return
    const remembered = lastGenerationOfUpstreams(state, upstreams)
    if (remembered === undefined) return
    const [generation, known] = remembered
    tracker.setChain({ id: chainId, generation }, known.head, false)
    this.#ownChain.replace(known.anchors)
    this.#isAgreed = true
    this.#restored = { isRememberedOnly: !state.generations.has(generation) }
  }

  /** Purges everything: switches keys to a new generation at once, and claims its number when the registry responds. */
  startNewGeneration (): void {
    this.#purgeAll.start()
  }

  /** Chooses a higher generation, because two chains with the same chain id claimed this number. */
  async abandon (generation: number): Promise<void> {
    this.#ruledOutUpTo = generation
    const { stamped } = this.#dependencies.tracker
    if (stamped !== undefined) await this.choose(stamped)
  }

  async #trackChoice (choosing: Promise<void>): Promise<void> {
    this.#choosing = choosing
    await choosing.finally(() => {
      if (this.#choosing === choosing) this.#choosing = undefined
    })
  }

  async #chooseOnce (stamped: ResponsePosition): Promise<void> {
    const { tracker, events } = this.#dependencies
    const resetCount = this.#resetCount
    const { generation, known, isAgreed } = await chooseGeneration(
      stamped,
      this.#dependencies,
      this.#ownChain,
      this.#ruledOutUpTo
    )
    if (resetCount !== this.#resetCount) return
    const before = tracker.generation
    this.#isAgreed = isAgreed
    this.#isConfirmed = true
    tracker.setChain({ id: stamped.position.chainId, generation }, known.head ?? stamped, true)
    if (generation !== before) events.generationChanged.publish(generation)
  }

  /** Switches keys to a generation that another replica or an operator began; another chain waits for its turn. */
  adopt (generation: number, known: GenerationRecord, isSameChain: boolean): void {
    const { tracker } = this.#dependencies
    if (tracker.chainId === undefined || (!isSameChain && !tracker.beginChange())) return
    this.#isConfirmed = true
    tracker.setChain({ id: tracker.chainId, generation }, known.head, isSameChain)
    if (isSameChain) this.#ownChain.add(known.anchors)
    else this.#ownChain.replace(known.anchors)
    if (!isSameChain) this.#dependencies.events.resetByReplica.publish()
    this.#dependencies.events.generationChanged.publish(generation)
  }

  /** Resets the chain, because an upstream has proven that it changed; resolves with false if that must wait. */
  async resetChain (stamped: ResponsePosition): Promise<boolean> {
    const hasReset = this.#dependencies.tracker.reset(stamped)
    await this.#choosing
    return hasReset
  }
}

/** Schedules the reading of new anchors: 2 s after an upstream is verified, then every 10 s. */
class AnchorRenewal {
  readonly #identity: AnchoredChain
  readonly #now: () => number
  #dueAtMs: number | undefined

  constructor (identity: AnchoredChain, now: () => number) {
    this.#identity = identity
    this.#now = now
  }

  /** Starts the schedule once an upstream of the chain is verified. */
  schedule (): void {
    this.#dueAtMs ??= this.#now() + firstRenewalMs
  }

  /** Stops the schedule on a chain reset, until an upstream of the new chain is verified. */
  cancel (): void {
    this.#dueAtMs = undefined
  }

  /** Reads the newest final block as an anchor when one is due; retries after 1 s where a read failed. */
  async renewIfDue (position: Position): Promise<void> {
    if (this.#dueAtMs === undefined || this.#now() < this.#dueAtMs) return
    this.#dueAtMs = this.#now() + renewEveryMs
    if (!await this.#identity.readAnchors(position) && this.#dueAtMs !== undefined) {
      this.#dueAtMs = this.#now() + retryMs
    }
  }
}
