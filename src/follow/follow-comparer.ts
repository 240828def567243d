import { LRUCache } from 'lru-cache'
import { type EndpointName } from '../api/endpoints.js'
import { type StateDigest } from '../api/state-key.js'
import { type Validity } from './ledger-knowledge.js'

/** Results of comparing a latest response with the one that following would have served. */
export const followComparisons = ['equal', 'different', 'unknown'] as const

/** One of the closed list. */
export type FollowComparison = typeof followComparisons[number]

/** Latest response of an upstream. */
export interface Observation {
  readonly endpoint: EndpointName
  /** Family of all versions of the read. */
  readonly family: string
  /** Version that the response was read at. */
  readonly version: bigint
  readonly etag: string
  readonly release: string | undefined
  /** True if the release of an upstream can change the response. */
  readonly isRenderedByRelease: boolean
  readonly dependencies: readonly StateDigest[]
}

/** Parts of a comparer. */
export interface FollowComparerOptions {
  readonly validityAt: (at: bigint, readAt: bigint, dependencies: readonly StateDigest[]) => Validity
  readonly headVersion: () => bigint | undefined
  /** Resolves with true if every upstream still runs the release that a response is believed to be of. */
  readonly confirmRelease: (release: string | undefined) => Promise<boolean>
  readonly onObserved: (observation: Observation, result: FollowComparison) => void
}

// Each is a few hundred bytes (law 10: nothing grows without bound).
const maxKnown = 20_000
const maxPending = 10_000

/** Compares latest responses with what following would have served, once the tail has reached their version. */
export class FollowComparer {
  readonly #options: FollowComparerOptions
  readonly #known = new LRUCache<string, Observation>({ max: maxKnown })
  readonly #pending = new Map<bigint, Observation[]>()
  #pendingCount = 0

  constructor (options: FollowComparerOptions) {
    this.#options = options
  }

  /** Takes a latest response; one of a version that was not read yet waits for it. */
  record (observation: Observation): void {
    const headVersion = this.#options.headVersion()
    if (headVersion === undefined || this.#pendingCount >= maxPending) return this.#report(observation, 'unknown')
    if (observation.version <= headVersion) return this.#compare(observation)
    const sameVersion = this.#pending.get(observation.version) ?? []
    sameVersion.push(observation)
    this.#pending.set(observation.version, sameVersion)
    this.#pendingCount++
  }

  /** Compares what was read at a version, before later versions hide what changed until then. */
  onVersion (version: bigint): void {
    const observations = this.#pending.get(version)
    if (observations === undefined) return
    this.#pending.delete(version)
    this.#pendingCount -= observations.length
    for (const observation of observations) this.#compare(observation)
  }

  /** Gives up on versions at or below a new beginning, which nothing compares any more. */
  onBegin (version: bigint): void {
    for (const [at, observations] of this.#pending) {
      if (at > version) continue
      this.#pending.delete(at)
      this.#pendingCount -= observations.length
      for (const observation of observations) this.#report(observation, 'unknown')
    }
  }

  #compare (observation: Observation): void {
    const { family, version, etag, release, dependencies } = observation
    const known = this.#known.get(family)
    // A rendering of another release would be fetched again.
    const isComparable = known !== undefined && known.release === release && known.version <= version
    const isUnchanged = isComparable && this.#options.validityAt(version, known.version, dependencies) === 'unchanged'
    if (!isUnchanged) this.#report(observation, 'unknown')
    else if (known.etag === etag) this.#report(observation, 'equal')
    else this.#reportDifference(observation)
    if (known === undefined || known.version <= version) this.#known.set(family, observation)
  }

  /** An upstream may have been upgraded since its last poll (law 8: rendering can change, history cannot). */
  #reportDifference (observation: Observation): void {
    if (!observation.isRenderedByRelease) return this.#report(observation, 'different')
    this.#options.confirmRelease(observation.release).then(isConfirmed => {
      this.#report(observation, isConfirmed ? 'different' : 'unknown')
    }, () => {
      this.#report(observation, 'unknown')
    })
  }

  #report (observation: Observation, result: FollowComparison): void {
    this.#options.onObserved(observation, result)
  }
}
