import { type GenerationDependencies } from './generation-dependencies.js'
import { type GenerationActions } from './generation-adopter.js'

/**
 * New generation that purges everything. Its number must be unused, because entries of an earlier generation could hold
 * what the operator purged.
 */
export class PurgeAll {
  readonly #dependencies: GenerationDependencies
  readonly #ownGeneration: GenerationActions
  // In use here, but not claimed in the registry yet.
  #pendingGeneration: number | undefined

  constructor (dependencies: GenerationDependencies, ownGeneration: GenerationActions) {
    this.#dependencies = dependencies
    this.#ownGeneration = ownGeneration
  }

  /** True while the other replicas do not know of this generation. */
  get isPending (): boolean {
    return this.#pendingGeneration !== undefined
  }

  /** Switches this process to a new generation at once. */
  start (): void {
    const { tracker, registry } = this.#dependencies
    // No key exists while the generation is unknown, so nothing needs purging.
    if (tracker.chain === undefined) return
    const generation = tracker.nextGeneration
    if (registry !== undefined) this.#pendingGeneration = generation
    this.#ownGeneration.adopt(generation, this.#ownGeneration.ownRecord, true)
  }

  /** Claims the number in the registry; moves to a higher number if another replica has it. */
  async claim (): Promise<void> {
    const { tracker, registry } = this.#dependencies
    // Following another replica's generation meanwhile made the number too low.
    if (this.#pendingGeneration !== tracker.generation) this.start()
    const generation = this.#pendingGeneration
    if (registry === undefined || generation === undefined || tracker.chain === undefined) return
    if (!await registry.claim(tracker.chain.id, generation, this.#ownGeneration.ownRecord)) this.start()
    // A second purge during the claim begins another generation.
    else if (this.#pendingGeneration === generation) this.#pendingGeneration = undefined
  }
}
