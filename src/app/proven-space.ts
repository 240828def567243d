import { type Generations } from '../chain/generations.js'
import { type ChainGeneration, type Tracker } from '../chain/tracker.js'
import { type DiskRegistry } from '../cluster/disk-registry.js'

// A new head changes nothing that a start needs soon; new anchors and generations are saved at once.
const saveHeadEveryMs = 2000

/** Space with the entries of our chain, proven by the anchors in its record (law 7: chains never mix). */
export class ProvenSpace {
  readonly #registry: DiskRegistry
  readonly #tracker: Tracker
  readonly #generations: Generations
  readonly #isAlone: boolean
  #proven: { readonly chain: ChainGeneration, readonly space: string } | undefined
  #savedAnchors = 0
  #savedAtMs = -Infinity

  constructor (registry: DiskRegistry, tracker: Tracker, generations: Generations, isAlone: boolean) {
    this.#registry = registry
    this.#tracker = tracker
    this.#generations = generations
    this.#isAlone = isAlone
  }

  get space (): string | undefined {
    const { chain } = this.#tracker
    if (chain === undefined || !this.#generations.isAgreed) return undefined
    if (this.#proven?.chain !== chain) {
      const space = this.#registry.spaceOf(chain, this.#generations.ownRecord)
      this.#proven = space === undefined ? undefined : { chain, space }
    }
    return this.#proven?.space
  }

  /** Follows the chosen generation, claims one that is pending, and saves what changed. */
  async sync (nowMs: number): Promise<void> {
    const generations = this.#generations
    if (this.#isAlone && !generations.isAgreed) {
      await generations.applyRegistryState({ generations: new Map() })
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
    this.#proven = undefined
  }

  async restoreChain (): Promise<void> {
    const last = this.#registry.lastServed(this.#tracker.chainId)
    if (last !== undefined) {
      this.#generations.restoreChain(last.chainId, [last], await this.#registry.read(last.chainId))
    }
  }
}
