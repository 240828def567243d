import { type ResponsePosition } from '../api/position.js'
import { candidatesIn } from './generation-candidates.js'
import { type RegisteredGenerations } from './generation-registry.js'
import { type GenerationDependencies } from './generation-dependencies.js'
import { type AnchoredChain, type ChainVerdict } from './anchored-chain.js'
import { type GenerationRecord } from './generation-record.js'
import { contradicts } from './tracker.js'

/** Actions on the generation that this process uses. */
export interface GenerationActions {
  readonly ownRecord: GenerationRecord
  adopt(generation: number, known: GenerationRecord, isSameChain: boolean): void
  resetChain(stamped: ResponsePosition): Promise<boolean>
  abandon(generation: number): Promise<void>
}

/** Follows or rejects the generations that other replicas publish (law 7: chains never mix). */
export class GenerationAdopter {
  readonly #dependencies: GenerationDependencies
  readonly #identity: AnchoredChain
  readonly #ownGeneration: GenerationActions
  // Generations of another chain, by number and count of anchors, so that each is reported once.
  readonly #rejected = new Set<string>()

  constructor (dependencies: GenerationDependencies, identity: AnchoredChain, ownGeneration: GenerationActions) {
    this.#dependencies = dependencies
    this.#identity = identity
    this.#ownGeneration = ownGeneration
  }

  /** Compares rejected generations again, because an upstream may have come back with another chain. */
  retryRejected (): void {
    this.#rejected.clear()
  }

  /** Returns true unless the published record of our own generation may be of another chain. */
  isOwnRecord (shared: GenerationRecord | undefined): boolean {
    if (shared === undefined) return true
    const served = this.#dependencies.tracker.position
    if (shared.anchors.length > 0) return this.#identity.isSameChain(shared.anchors) === true
    return shared.head === undefined || served === undefined || !contradicts(shared.head.position, served)
  }

  /** Merges the published record of our own generation, and follows a higher one. */
  async apply (state: RegisteredGenerations): Promise<void> {
    const { tracker, events } = this.#dependencies
    const { generation } = tracker
    const shared = state.generations.get(generation)
    for (const known of state.generations.keys()) tracker.noteGeneration(known)
    const verdict = shared === undefined ? 'same' : await this.#verifyOwnRecord(shared)
    if (tracker.chain === undefined || tracker.generation !== generation || verdict === 'unknown') return
    if (verdict !== 'same') {
      events.conflictingChain.publish(generation)
      return await this.#ownGeneration.abandon(generation)
    }
    this.#identity.add(shared?.anchors ?? [])
    if (shared?.head !== undefined) tracker.learnProven(shared.head)
    const [highest] = candidatesIn(state)
    if (highest !== undefined && highest[0] > generation) await this.#considerHigher(...highest)
  }

  async #considerHigher (generation: number, known: GenerationRecord): Promise<void> {
    const name = `${generation} ${known.anchors.length}`
    if (this.#rejected.has(name) || !await this.#isRejected(generation, known)) return
    this.#rejected.add(name)
    this.#dependencies.events.conflictingChain.publish(generation)
  }

  /** Compares a published generation with our chain; a verified upstream decides where anchors do not. */
  async #verifyOwnRecord (shared: GenerationRecord): Promise<ChainVerdict> {
    if (this.isOwnRecord(shared)) return 'same'
    if (this.#identity.isSameChain(shared.anchors) === false) return 'other'
    return (await this.#identity.verifyNow(shared)).verdict
  }

  /**
   * Switches to a higher generation once it is proven to be of our chain, or our upstream has changed to its chain.
   * Returns true if it is of another chain; where a comparison fails, the next one decides.
   */
  async #isRejected (generation: number, known: GenerationRecord): Promise<boolean> {
    const { tracker } = this.#dependencies
    const before = tracker.generation
    if (this.#identity.isContinuedBy(known, tracker.position)) {
      this.#ownGeneration.adopt(generation, known, true)
      return false
    }
    const theirs = await this.#identity.verifyNow(known)
    const ours = theirs.verdict === 'other' || theirs.verdict === 'unproven'
      ? await this.#identity.verifyNow(this.#ownGeneration.ownRecord)
      : undefined
    // The generation changed during the comparison, so the verdict no longer applies.
    if (tracker.chain === undefined || tracker.generation !== before) return false
    if (theirs.verdict === 'same') this.#ownGeneration.adopt(generation, known, false)
    if (ours === undefined || ours.verdict === 'unknown') return false
    if (ours.verdict !== 'other' || ours.now === undefined) return true
    await this.#ownGeneration.resetChain(ours.now)
    return false
  }
}
