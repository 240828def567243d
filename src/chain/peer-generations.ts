import { type StampedPosition } from '../api/position.js'
import { candidatesIn } from './generation-candidates.js'
import { type RegistryState } from './generation-registry.js'
import { type GenerationOptions } from './generation-options.js'
import { type AnchoredChain } from './anchored-chain.js'
import { type KnownGeneration } from './known-generation.js'

/** Actions on the generation that this process uses. */
export interface OwnGeneration {
  readonly ownRecord: KnownGeneration
  adopt(generation: number, known: KnownGeneration, isSameChain: boolean): void
  resetChain(stamped: StampedPosition): Promise<void>
  abandon(generation: number): Promise<void>
}

/** Follows or rejects the generations that other replicas publish (law 7). */
export class PeerGenerations {
  readonly #options: GenerationOptions
  readonly #identity: AnchoredChain
  readonly #ownGeneration: OwnGeneration
  // Generations of another chain, by number and count of anchors, so that each is reported once.
  readonly #rejected = new Set<string>()

  constructor (options: GenerationOptions, identity: AnchoredChain, ownGeneration: OwnGeneration) {
    this.#options = options
    this.#identity = identity
    this.#ownGeneration = ownGeneration
  }

  /** Compares rejected generations again, because an upstream may have come back with another chain. */
  retryRejected (): void {
    this.#rejected.clear()
  }

  /** Merges the published record of our own generation, and follows a higher one. */
  async apply (state: RegistryState): Promise<void> {
    const { tracker, events } = this.#options
    const { generation } = tracker
    const shared = state.generations.get(generation)
    const isOwnChain = shared === undefined || await this.#isOwnChain(shared)
    if (tracker.chain === undefined || tracker.generation !== generation) return
    if (!isOwnChain) {
      events.conflictingChain.publish(generation)
      return await this.#ownGeneration.abandon(generation)
    }
    for (const known of state.generations.keys()) tracker.noteGeneration(known)
    this.#identity.add(shared?.anchors ?? [])
    if (shared?.head !== undefined) tracker.learnProven(shared.head)
    const [highest] = candidatesIn(state)
    if (highest !== undefined && highest[0] > generation) await this.#considerHigher(...highest)
  }

  async #considerHigher (generation: number, known: KnownGeneration): Promise<void> {
    const name = `${generation} ${known.anchors.length}`
    if (this.#rejected.has(name) || await this.#adoptHigher(generation, known)) return
    this.#rejected.add(name)
    this.#options.events.conflictingChain.publish(generation)
  }

  /** Compares a published generation with our chain; a verified upstream decides where anchors do not. */
  async #isOwnChain (shared: KnownGeneration): Promise<boolean> {
    if (this.#identity.anchors.length === 0 || shared.anchors.length === 0 || this.#identity.matches(shared.anchors)) {
      return true
    }
    return (await this.#identity.verifyNow(shared)).verdict !== 'other'
  }

  /** Switches to a higher generation unless an upstream rules it out; returns false if it is rejected. */
  async #adoptHigher (generation: number, known: KnownGeneration): Promise<boolean> {
    const { tracker } = this.#options
    const before = tracker.generation
    const isSameChain = this.#identity.isContinuedBy(known, tracker.position)
    const theirs = await this.#identity.verifyNow(known)
    const ours = theirs.verdict === 'same' || theirs.now === undefined
      ? undefined
      : await this.#identity.verifyNow(this.#ownGeneration.ownRecord)
    // The generation changed during the comparison, so the verdict no longer applies.
    if (tracker.chain === undefined || tracker.generation !== before) return true
    if (theirs.verdict !== 'other' && ours?.verdict !== 'same') {
      this.#ownGeneration.adopt(generation, known, isSameChain)
    } else if (ours?.verdict === 'other' && ours.now !== undefined) await this.#ownGeneration.resetChain(ours.now)
    else return false
    return true
  }
}
