import { type Generations } from '../chain/generations.js'
import { type ChainGeneration, type Tracker } from '../chain/tracker.js'
import { type FolderRegistry } from '../cluster/disk-generations.js'

// A new head changes nothing that a start needs soon; new anchors and generations are saved at once.
const saveHeadEveryMs = 2000

/**
 * Generations that a process follows in the folder: its own claims, those of other workers, or none because Redis has
 * them.
 */
export type RegistryFollowing = 'own' | 'workers' | 'none'

/** Saves and adopts generations in the folder; its space has proven entries of our chain (law 7: chains never mix). */
export class DiskGenerationSync {
  readonly #registry: FolderRegistry
  readonly #tracker: Tracker
  readonly #generations: Generations
  readonly #follows: RegistryFollowing
  #proven: { readonly chain: ChainGeneration, readonly revision: number, readonly space: string } | undefined
  #savedAnchors = 0
  #savedAtMs = -Infinity

  constructor (registry: FolderRegistry, tracker: Tracker, generations: Generations, follows: RegistryFollowing) {
    this.#registry = registry
    this.#tracker = tracker
    this.#generations = generations
    this.#follows = follows
  }

  get space (): string | undefined {
    const { chain } = this.#tracker
    if (chain === undefined || !this.#generations.isAgreed) return undefined
    const { records } = this.#registry
    if (this.#proven?.chain !== chain || this.#proven.revision !== records.revision) {
      const space = records.spaceOf(chain, this.#generations.ownRecord)
      this.#proven = space === undefined ? undefined : { chain, revision: records.revision, space }
    }
    return this.#proven?.space
  }

  /** Follows the chosen generation, claims one that is pending, and saves what changed. */
  async sync (nowMs: number): Promise<void> {
    const generations = this.#generations
    if (this.#follows === 'own' && !generations.isAgreed) {
      await generations.applyRegistryState({ generations: new Map() })
    }
    if (this.#follows === 'workers' && this.#tracker.chain !== undefined) {
      await generations.applyRegistryState(await this.#registry.read(this.#tracker.chain.id))
    }
    const { chain } = this.#tracker
    if (chain === undefined || !generations.isAgreed) return
    const { ownRecord } = generations
    const isNew = this.space === undefined || ownRecord.anchors.length !== this.#savedAnchors
    if (!isNew && nowMs - this.#savedAtMs < saveHeadEveryMs) return
    await this.#registry.update(chain, ownRecord)
    this.#savedAnchors = ownRecord.anchors.length
    this.#savedAtMs = nowMs
  }

  /** Saves again at the next sync, whatever was saved before. */
  saveAtNextSync (): void {
    this.#savedAtMs = -Infinity
  }

  /** Gives our chain an empty space. */
  async renew (): Promise<void> {
    const { chain } = this.#tracker
    if (chain === undefined || !this.#generations.isAgreed) throw new Error('the chain is not proven yet')
    await this.#registry.renew(chain, this.#generations.ownRecord)
  }

  async restoreChain (): Promise<void> {
    const last = this.#registry.records.lastServed(this.#tracker.chainId)
    if (last !== undefined) {
      this.#generations.restoreChain(last.chainId, [last], await this.#registry.read(last.chainId))
    }
  }
}
