import { type Chain, type Era } from '../model/chain.js'
import { type ReadSource } from '../model/draw-read.js'
import { gasBlocks, type Judgement, type JudgedExchange, type World } from '../model/judge.js'
import { expectedResponse, type LedgerMoment } from '../model/oracle.js'
import { isLatestState, type ReadSpec, versionOf } from '../model/read-spec.js'
import { type ModelRequest } from '../model/request.js'
import { responseDifference } from '../model/response-difference.js'
import { Observations, type ServedPosition } from '../model/served-position.js'
import { judgeError } from './judge-error.js'
import { hasEvents, judgeEvents } from './judge-events.js'
import { noticeResetMs, releaseMs, type SimulatedPool, type TimeSpan } from './simulated-pool.js'

/** A read among faulty upstreams. */
export interface PoolRead extends JudgedExchange {
  readonly spec: ReadSpec
  readonly span: TimeSpan
  /** True if its cursor pins a version. */
  readonly isPinned?: boolean
}

/** Configuration of varve, as far as it changes what a right response is, and reads to draw. */
export interface PoolWorldOptions {
  readonly pinsPages?: boolean
  /** Age that is allowed to a latest read of state when it arrives. */
  readonly latestMs?: number
  /** Share of reads of state that name no version. */
  readonly latestShare?: number
  /** Time in which the workers of varve learn heads from each other; 0 for one process. */
  readonly sharingMs?: number
}

// Allowed age in blocks: a response without position gets the last known one, which a failing upstream may not renew.
const unstampedBlocks = 20
// Time that a read waits for a fresh rendering before it gets the stored one (law 8: rendering can change).
const freshRenderingMs = 450

/** Several upstreams with faults, whose condition is known at any time. */
export class PoolWorld implements World<PoolRead> {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly observations = new Observations()
  readonly sharingMs: number
  readonly #pinsPages: boolean
  readonly #latestMs: number
  readonly #latestShare: number | undefined

  constructor (
    pool: SimulatedPool,
    chain: Chain,
    { pinsPages = false, latestMs = 0, latestShare, sharingMs = 0 }: PoolWorldOptions = {}
  ) {
    this.pool = pool
    this.chain = chain
    this.sharingMs = sharingMs
    this.#pinsPages = pinsPages
    this.#latestMs = latestMs
    this.#latestShare = latestShare
  }

  /** Facts from which reads are drawn now. */
  get source (): ReadSource {
    return {
      era: this.chain.current,
      windows: this.pool.upstreams.map(({ window }) => window),
      latestShare: this.#latestShare
    }
  }

  judgeAlone ({ spec, response: { status } }: PoolRead, served: ServedPosition | undefined): Judgement | undefined {
    if (spec.kind === 'nonsense') {
      return { failure: status === 400 ? undefined : 'an invalid request was not rejected with 400' }
    }
    return served === undefined && status === 200 ? { failure: 'a 200 without a position' } : undefined
  }

  versionOf ({ spec }: PoolRead): bigint | undefined {
    return versionOf(spec)
  }

  erasOf ({ servedFloor, span }: PoolRead): readonly Era[] {
    const from = Math.max(servedFloor.era, this.pool.requiredEra(span.from))
    return this.chain.eras.slice(from)
  }

  upstreamRequestOf ({ request }: PoolRead): ModelRequest {
    return request
  }

  isEtagOf (): boolean {
    return false
  }

  pinnedVersionOf ({ spec, isPinned = false }: PoolRead, served: ServedPosition | undefined): bigint | undefined {
    if (spec.kind !== 'modules' || !this.#pinsPages) return undefined
    return isPinned ? spec.version : spec.version === undefined ? served?.version : undefined
  }

  momentsOf (given: PoolRead, era: Era, served: ServedPosition | undefined): readonly LedgerMoment[] {
    const { spec, response, span } = given
    const { height: head } = era.archive
    switch (spec.kind) {
      case 'info':
        return [{ height: head }]
      case 'gas': {
        // Reuses the price for half a second.
        const height = served?.height ?? 0
        const isHit = String(response.headers['cache-status']).includes('hit')
        return (isHit ? [height, Math.max(0, height - gasBlocks)] : [height]).map(at => ({ height: at }))
      }
      case 'events':
        return [{ height: served?.height ?? head }]
      default: {
        const height = versionOf(spec) === undefined ? served?.height : head
        if (height === undefined) return []
        if (isRendered(spec)) return [...this.pool.releasesIn(span)].map(release => ({ height, release }))
        // Accepts a not-found without position from a failing upstream, which still quotes its version.
        const isUnstamped = versionOf(spec) === undefined && response.status === 404 &&
          this.pool.wasAnyUpstream(span, ({ condition }) => condition === 'unhealthy')
        const blocks = isUnstamped ? Math.min(unstampedBlocks, head - height) : 0
        return Array.from({ length: blocks + 1 }, (_, more) => ({ height: height + more }))
      }
    }
  }

  judgeOther (
    given: PoolRead,
    era: Era,
    served: ServedPosition | undefined,
    difference: string | undefined
  ): string | undefined {
    const { spec, request, response } = given
    if (spec.kind === 'events') return judgeEvents({ ...given, spec }, this.pool, era, served)
    if (difference === undefined) return this.#judgeError(given, era)
    if (spec.kind === 'info' || spec.kind === 'gas') {
      return response.status === 200 ? difference : this.#judgeError(given, era)
    }
    const height = versionOf(spec) === undefined ? served?.height : undefined
    const right = expectedResponse(era, request, {
      height: height ?? era.archive.height,
      release: this.pool.upstreams[0]?.release
    })
    if (response.status !== right.status) return this.#judgeError(given, era)
    if (isRendered(spec) && right.status === 200) return this.#judgeRendering(given, era, served)
    // Accepts version_not_found, whose text is the same everywhere; any other 404 quotes the read.
    return response.status === 404 && response.bytes.includes('"error_code":"version_not_found"')
      ? this.#judgeError(given, era)
      : `not what the chain says in era ${era.index}: ${difference}`
  }

  /**
   * Checks laws 4 and 5: never before the served head, current if a live upstream knows, and stamped with a window that
   * an upstream had.
   */
  judgePosition (given: PoolRead, served: ServedPosition): string | undefined {
    const { spec, response, span, servedFloor } = given
    const { pool } = this
    const { era, version, oldest } = served
    if (!pool.hadOldest(era, oldest)) return `no node's history has begun at ${oldest}`
    const tooOld = this.#judgeAge(given, served)
    if (tooOld !== undefined) return tooOld
    const before = servedFloor.versions[era.index] ?? -1n
    const isBehind = version < before
    if (isBehind && !isStampedByUpstream(given)) return `position ${version} is before ${before}, which was shown`
    if (
      isBehind &&
      pool.hadCapableUpstream(
        era,
        span,
        window => window.head >= before && (spec.kind !== 'events' || hasEvents(spec, era)(window))
      )
    ) return `a latest response at ${version} is before ${before}, which was shown and which a live node had reached`
    // Checks presence only without stalls: a stalled process cannot know the present.
    return response.status === 200 && !isBehind && !pool.wasStalled({ from: span.from - noticeResetMs, to: span.to })
      ? this.#judgePresence(given, served)
      : undefined
  }

  /**
   * Checks law 5: an upstream had this head not longer before a latest read than is allowed. Read and heads are timed
   * by one clock, so no stall of the machine excuses an older response.
   */
  #judgeAge ({ spec, response, span: { from, to } }: PoolRead, { era, version }: ServedPosition): string | undefined {
    // An error carries the served position, at which nothing was read.
    if (!isLatestState(spec) || response.status >= 500) return undefined
    const isFresh = this.pool.wasAnyUpstream(
      { from: from - this.#latestMs, to },
      moment => moment.era === era.index && moment.head === version
    )
    return isFresh
      ? undefined
      : `a latest response older than ${this.#latestMs} ms: no node had the head ${version} since`
  }

  /**
   * Checks that the position is fresh: traffic or a poll each second renews it from upstreams that lived all the time.
   */
  #judgePresence ({ span: { from, to } }: PoolRead, { era, version, oldest }: ServedPosition): string | undefined {
    const { upstreams } = this.pool
    const lived = upstreams.map(({ history }) => history.between(from - 2 * noticeResetMs, to)).filter(each =>
      each.every(({ condition, era: at }) => condition === 'up' && at === era.index)
    )
    const lately = lived.map(each =>
      each.filter(({ at }, nth) => at > from - noticeResetMs || (each[nth + 1]?.at ?? to) > from - noticeResetMs)
    )
    const heads = lately.flat().map(({ head }) => head)
    const least = heads.reduce((lowest, head) => head < lowest ? head : lowest, heads[0] ?? 0n)
    if (version < least) {
      return `position ${version} is not the present: a live node had passed ${least} for ${noticeResetMs} ms`
    }
    // Skips upstreams that fell back, which prove nothing about the position.
    const isClear = lived.length === upstreams.length &&
      lived.every(each => each.every(({ head }, at) => head >= (each[at - 1]?.head ?? head)))
    if (isClear && !lately.flat().some(moment => moment.oldest === oldest)) {
      return `the oldest, ${oldest}, is not the present: no node has begun there for ${noticeResetMs} ms`
    }
    return undefined
  }

  /** Checks law 8, rendering can change: an older release's rendering only if no upstream could render in time. */
  #judgeRendering (given: PoolRead, era: Era, served: ServedPosition | undefined): string | undefined {
    const { pool } = this
    const { spec, request, response, span } = given
    const height = (versionOf(spec) === undefined ? served?.height : undefined) ?? era.archive.height
    const pinned = this.pinnedVersionOf(given, served)
    const isKnownRendering = pool.releases.some(release =>
      responseDifference(request, response, expectedResponse(era, request, { height, release }), pinned) === undefined
    )
    if (!isKnownRendering) return `not what the chain says in era ${era.index}`
    const version = versionOf(spec) ?? 0n
    const isKnown = pool.hadKnownCapableUpstream(
      era,
      span,
      ({ oldest, head }) => oldest <= version && version <= head,
      releaseMs
    )
    return isKnown && span.to - span.from < freshRenderingMs
      ? 'rendered by a release that no live node runs'
      : undefined
  }

  #judgeError (given: PoolRead, era: Era): string | undefined {
    return judgeError(given, this.pool, era)
  }
}

// True for responses with their own stamp, if they come from an upstream directly.
function isStampedByUpstream ({ spec, response: { headers } }: PoolRead): boolean {
  if (String(headers['cache-status']).includes('hit')) return false
  return isLatestState(spec) || spec.kind === 'gas' || spec.kind === 'events'
}

// True for modules and transactions, which the embedded node renders by its release.
function isRendered (spec: ReadSpec): boolean {
  return spec.form === 'json' && (spec.kind === 'modules' || (spec.kind === 'block' && spec.transactions === 'true'))
}
