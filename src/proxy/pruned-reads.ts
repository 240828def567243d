import { type Entry } from '../cache/entry.js'
import { type Position } from '../api/position.js'
import { type Read } from '../api/read.js'
import { reportsPruned } from '../api/upstream-response.js'
import { type FetchResult } from './outcomes.js'
import { type EndpointName } from '../api/endpoints.js'
import { type PrunedErrorBuilder } from '../api/pruned-error-builder.js'
import { type Config } from '../config/schema.js'
import { type PinParts } from './pinned-read.js'

/** Parts that know which history upstreams have pruned. */
export interface PrunedParts extends Pick<PinParts, 'tracker' | 'upstreamPool'> {
  readonly settings: Pick<Config, 'pages' | 'pruned'>
  readonly prunedErrorBuilder: PrunedErrorBuilder
  readonly metrics: {
    pruned(
      endpoint: EndpointName | 'other',
      by: 'cache' | 'local' | 'upstream',
      distanceVersions: bigint | undefined
    ): void
  }
}

/** Versions that an entry describes, for reads that name none. */
type VersionBounds = Pick<Entry, 'lowestVersion' | 'validity'>

/** Returns the version that a read names, else the lowest version that its entry describes. */
export function lowestVersionOf ({ requestedVersion }: Read, cached?: VersionBounds): bigint | undefined {
  return requestedVersion ?? cached?.lowestVersion ?? cached?.validity?.first
}

/** Returns the highest version that a response is about; undefined if that is unknown. */
export function highestVersionOf ({ requestedVersion, endpoint }: Read, cached?: VersionBounds): bigint | undefined {
  if (cached?.validity !== undefined) return cached.validity.last
  if (endpoint.keyedBy === 'hash') return cached?.lowestVersion
  return endpoint.keyedBy === 'version' || endpoint.keyedBy === 'transaction' ? requestedVersion : undefined
}

/** Returns true if a pruned entry may be served; one that every upstream has pruned needs `pruned.serveCached`. */
export function mayServePruned (context: PrunedParts, read: Read, cached: VersionBounds): boolean {
  const version = lowestVersionOf(read, cached)
  return context.settings.pruned.serveCached ||
    (version !== undefined && !context.upstreamPool.isPrunedEverywhere(version))
}

/** Returns the number of versions from a read, or its entry, to the oldest version; undefined inside the window. */
export function prunedDistance (
  position: Position | undefined,
  read: Read,
  cached?: VersionBounds
): bigint | undefined {
  const version = lowestVersionOf(read, cached)
  return version !== undefined && position !== undefined && version < position.oldest.version
    ? position.oldest.version - version
    : undefined
}

/** Throws and counts the 410 for a version that every upstream has pruned (law 11: "gone" is a fact, not a guess). */
export function rejectPruned (context: PrunedParts, read: Read): void {
  const { requestedVersion } = read
  const distance = prunedDistance(context.tracker.position, read)
  // Requires two proofs: the served position, which is of our chain, and the last known window of every upstream.
  if (
    !context.settings.pruned.answerLocally || distance === undefined || requestedVersion === undefined ||
    !context.upstreamPool.isPrunedEverywhere(requestedVersion)
  ) return
  context.metrics.pruned(read.endpoint.name, 'local', distance)
  throw context.prunedErrorBuilder.errorFor(requestedVersion, requestedVersion + distance)
}

/** Counts a response of an upstream that lacks pruned history. */
export function countPrunedResponse (context: PrunedParts, read: Read, { response, notStored }: FetchResult): void {
  if (notStored !== 'pruned_page' && !reportsPruned(response)) return
  context.metrics.pruned(read.endpoint.name, 'upstream', prunedDistance(context.tracker.position, read))
}

/**
 * Throws the 410 for a page whose beginning was pruned, if an operator wants that. Such a page comes only after every
 * upstream with a longer history has responded (law 11: "gone" is a fact, not a guess).
 */
export function rejectPrunedPage (context: PrunedParts, { response, notStored }: FetchResult): void {
  const oldest = response.stamped?.position.oldest.version
  // Accepts such a page of a whole history, of which nothing was pruned: it begins where its stream does.
  if (!context.settings.pages.strict || notStored !== 'pruned_page' || oldest === undefined || oldest === 0n) {
    return
  }
  throw context.prunedErrorBuilder.errorFor(oldest - 1n, oldest)
}

/** Sources of a forecast. */
export interface HistoryForecastSources {
  readonly now: () => number
  readonly tracker: { readonly position: Position | undefined }
  readonly lowestRequested: { valueIn(position: Position): bigint }
}

/** Time left from which the oldest requested version counts as about to be pruned. */
export const historySoonSeconds = 3600
const sampleMs = 60_000
const samplesPerHalfHour = 30

/**
 * Forecasts when the oldest version that clients request is pruned, as the recording rule
 * `instance:varve_history_left:seconds` does: at the slower pace of the last two half hours.
 */
export class HistoryForecast {
  readonly #sources: HistoryForecastSources
  // Oldest version of each minute of the last hour, newest last.
  #samples: number[] = []
  #sampledAtMs = -Infinity
  #soonSinceMs: number | undefined

  constructor (sources: HistoryForecastSources) {
    this.#sources = sources
  }

  /** Samples the oldest version once a minute. */
  tick (): void {
    const { now, tracker: { position } } = this.#sources
    if (now() - this.#sampledAtMs < sampleMs) return
    this.#sampledAtMs = now()
    if (position === undefined) {
      this.#samples = []
      this.#soonSinceMs = undefined
      return
    }
    this.#samples = [...this.#samples, Number(position.oldest.version)].slice(-1 - 2 * samplesPerHalfHour)
    if (this.#isSoon(position)) this.#soonSinceMs ??= now()
    else this.#soonSinceMs = undefined
  }

  /** Seconds for which the history left has been short without a break; undefined while it is not. */
  get soonForSeconds (): number | undefined {
    return this.#soonSinceMs === undefined ? undefined : (this.#sources.now() - this.#soonSinceMs) / 1000
  }

  // Counts only the older half of the window, because clients that read near the head lose nothing.
  #isSoon (position: Position): boolean {
    const perSecond = this.#versionsPerSecond
    const distance = Number(this.#sources.lowestRequested.valueIn(position) - position.oldest.version)
    const window = Number(position.head.version - position.oldest.version)
    return perSecond !== undefined && perSecond > 0 && window > 0 &&
      distance / perSecond < historySoonSeconds && distance / window < 0.5
  }

  // Takes the lesser pace of two half hours, because an upstream that leaves or returns is a step in one of them only.
  get #versionsPerSecond (): number | undefined {
    const [first, middle, last] = [this.#samples[0], this.#samples.at(-1 - samplesPerHalfHour), this.#samples.at(-1)]
    const minutesBefore = this.#samples.length - 1 - samplesPerHalfHour
    if (first === undefined || middle === undefined || last === undefined || minutesBefore < 1) return undefined
    return Math.min((middle - first) / (minutesBefore * 60), (last - middle) / (samplesPerHalfHour * 60))
  }
}

// Half period of the lowest requested version: requests of the last 150 to 300 seconds count.
const halfPeriodMs = 150_000
// Exceeds every u64.
const noVersion = 2n ** 64n

/**
 * Lowest version that clients requested recently; its distance from the oldest version warns operators before pruning
 * causes 410s.
 */
export class LowestRecentRequest {
  readonly #now: () => number
  #half = 1
  #halfStartedAtMs: number
  #lowest = noVersion
  #lowestInLastHalf = noVersion

  constructor (now: () => number) {
    this.#now = now
    this.#halfStartedAtMs = now()
  }

  /** Number of the current half period: a version recorded in it need not be recorded again. */
  get half (): number {
    return this.#half
  }

  /** Records a requested version; versions below the window are already pruned, so they do not count. */
  record (version: bigint, position: Position | undefined): void {
    if (version < this.#lowest && position !== undefined && version >= position.oldest.version) this.#lowest = version
  }

  /** Begins a new half period once the current one has ended. */
  rotate (): void {
    const halves = Math.floor((this.#now() - this.#halfStartedAtMs) / halfPeriodMs)
    if (halves === 0) return
    this.#lowestInLastHalf = halves === 1 ? this.#lowest : noVersion
    this.#lowest = noVersion
    this.#halfStartedAtMs += halves * halfPeriodMs
    this.#half++
  }

  /** Drops all versions, because they belong to another chain. */
  clear (): void {
    this.#lowest = this.#lowestInLastHalf = noVersion
    this.#half++
  }

  /** Clamps the lowest requested version to the window; the head if nothing lower was requested. */
  valueIn ({ head, oldest }: Position): bigint {
    this.rotate()
    const lowest = this.#lowest < this.#lowestInLastHalf ? this.#lowest : this.#lowestInLastHalf
    return lowest < oldest.version ? oldest.version : lowest > head.version ? head.version : lowest
  }
}
