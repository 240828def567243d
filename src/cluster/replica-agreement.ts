import { type Invalidation } from '../cache/invalidation.js'
import { type Generations } from '../chain/generations.js'
import { type ChainGeneration, type Tracker } from '../chain/tracker.js'

/** A purge that Redis does not have yet; its keys depend on the generation at delivery. */
export interface UndeliveredPurge {
  readonly id: string
  readonly invalidationIn: (chain: ChainGeneration) => Invalidation
  /** Reports that something was found to purge. */
  readonly onFound: () => void
}

/** Agreement of this process with the other replicas, without which it neither reads nor writes the Redis tier. */
export class ReplicaAgreement {
  /** Purges in order of delivery; until Redis has them all, it may still hold purged entries. */
  readonly undeliveredPurges: UndeliveredPurge[] = []
  readonly #generations: Pick<Generations, 'isAgreed'>
  readonly #tracker: Pick<Tracker, 'chain'>
  #mayBeOutdated = false

  constructor (generations: Pick<Generations, 'isAgreed'>, tracker: Pick<Tracker, 'chain'>) {
    this.#generations = generations
    this.#tracker = tracker
  }

  /** True while no entry in Redis can be of another chain (law 7: chains never mix) or purged. */
  get isReached (): boolean {
    return this.#generations.isAgreed && !this.#mayBeOutdated && this.undeliveredPurges.length === 0
  }

  /** Chain and generation confirmed by the control record; undefined while unconfirmed. */
  get chain (): ChainGeneration | undefined {
    return this.#generations.isAgreed ? this.#tracker.chain : undefined
  }

  /**
   * Suspends the agreement when Redis is down: other replicas may start generations meanwhile (law 7: chains never
   * mix).
   */
  suspend (): void {
    this.#mayBeOutdated = true
  }

  /** Resumes the agreement once the control record is read again. */
  resume (): void {
    this.#mayBeOutdated = false
  }
}
