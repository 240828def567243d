import { type SandboxResponse } from '../../../sandbox/response.js'
import { depositStream, streamWithoutEvents } from '../../../sandbox/deposit-events.js'
import { newBlockStream, newEpochStream } from '../../../sandbox/ledger-events.js'
import { type Chain, type Era } from '../model/chain.js'
import { type ReadSource } from '../model/draw-read.js'
import { gasBlocks, type Judgement, type JudgedExchange, type World } from '../model/judge.js'
import { expectedResponse, type LedgerMoment } from '../model/oracle.js'
import { type ReadSpec, versionOf } from '../model/read-spec.js'
import { type ModelRequest } from '../model/request.js'
import { responseDifference } from '../model/response-difference.js'
import { Observations, type ServedPosition } from '../model/served-position.js'
import { judgeError } from './judge-error.js'
import { noticeResetMs, releaseMs, type SimulatedPool, type TimeSpan } from './simulated-pool.js'

/** A read among faulty upstreams. */
export interface PoolRead extends JudgedExchange {
  readonly spec: ReadSpec
  readonly span: TimeSpan
  /** True if its cursor pins a version. */
  readonly isPinned?: boolean
}

// Allowed age in blocks: a response without position gets the last known one, which a failing upstream may not renew.
const unstampedBlocks = 20
// Time that a read waits for a fresh rendering before it gets the stored one (law 8: rendering can change).
const freshRenderingMs = 450
const eventStreams = {
  blocks: newBlockStream,
  epochs: newEpochStream,
  deposits: depositStream,
  nothing: streamWithoutEvents,
  'wrong type': streamWithoutEvents,
  'wrong field': streamWithoutEvents
}

/** Several upstreams with faults, whose condition is known at any time. */
export class PoolWorld implements World<PoolRead> {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly observations = new Observations()
  readonly #pinsPages: boolean

  constructor (pool: SimulatedPool, chain: Chain, { pinsPages = false } = {}) {
    this.pool = pool
    this.chain = chain
    this.#pinsPages = pinsPages
  }

  /** Facts from which reads are drawn now. */
  get source (): ReadSource {
    return { era: this.chain.current, windows: this.pool.upstreams.map(({ window }) => window) }
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
    if (spec.kind === 'events') return this.#judgeEvents(given, spec, era, served)
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

  /** Checks a page that is not the stream at the response's position: a pruned upstream may omit its beginning. */
  #judgeEvents (
    given: PoolRead,
    spec: ReadSpec & { kind: 'events' },
    era: Era,
    served: ServedPosition | undefined
  ): string | undefined {
    const { pool } = this
    const { response, request, span, servedFloor } = given
    const right = expectedResponse(era, request, { height: served?.height ?? era.archive.height })
    // Trusts missing or unreadable pages only from the upstream with the longest history (law 11: "gone" is a fact).
    const isExcused = response.status >= 500 &&
      (pool.wasStalled(span) || ((spec.form === 'bcs' || isEmptyPage(right)) && !pool.wereAllUp(era, span)))
    // Treats a lagging upstream like a pruned one: its empty page is not trusted either.
    const mustGive = response.status >= 500 && !pool.wereAllUp(era, span)
    // Requires more in BCS, where the page of a lagging full history looks like that of a pruned one ahead.
    const has = hasEvents(spec, era, mustGive)
    const leastHead = spec.form === 'bcs' ? servedFloor.versions[era.index] ?? -1n : -1n
    if (!isExcused && pool.hadCapableUpstream(era, span, window => has(window) && window.head >= leastHead)) {
      return `not the page at this position, ${response.status} for ${right.status}, though a live upstream had its events`
    }
    if (given.wasCached(era)) return `${response.status} for a page that was cached`
    switch (response.status) {
      case 200:
        return spec.form === 'bcs' || isTail(response.bytes, right)
          ? undefined
          : 'a page with other events than the stream has'
      case 410:
        return undefined
      case 500:
        return response.bytes.includes('pruned') ? undefined : this.#judgeError(given, era)
      // Checks the kind of error: it was just established that no capable upstream lived.
      default:
        return this.#judgeError(given, era, () => false)
    }
  }

  #judgeError (given: PoolRead, era: Era, isThere?: Parameters<typeof judgeError>[3]): string | undefined {
    return judgeError(given, this.pool, era, isThere)
  }
}

// True for responses with their own stamp, if they come from an upstream directly.
function isStampedByUpstream ({ spec, response: { headers } }: PoolRead): boolean {
  if (String(headers['cache-status']).includes('hit')) return false
  return versionOf(spec) === undefined &&
    (spec.kind === 'table' || spec.kind === 'modules' || spec.kind === 'gas' || spec.kind === 'events')
}

/** True if an upstream has the events of a page; for the last ones this depends on its head. */
function hasEvents (
  { stream, start, limit }: ReadSpec & { kind: 'events' },
  { archive, settings }: Era,
  mustGive = false
): (window: { oldest: bigint, head: bigint }) => boolean {
  const { countAtHeight, eventAt } = eventStreams[stream]
  return ({ oldest, head }) => {
    const count = countAtHeight(Number(archive.blockOf(head).height))
    const first = start ?? Math.max(0, count - (limit ?? settings.eventsDefault))
    return first < count ? oldest <= eventAt(archive, first).version : !mustGive
  }
}

// True for modules and transactions, which the embedded node renders by its release.
function isRendered (spec: ReadSpec): boolean {
  return spec.form === 'json' && (spec.kind === 'modules' || (spec.kind === 'block' && spec.transactions === 'true'))
}

function isEmptyPage ({ status, body }: SandboxResponse): boolean {
  return status === 200 && body.toString() === '[]'
}

function isTail (bytes: Buffer, right: SandboxResponse): boolean {
  const [page, whole] = [bytes, right.body].map(text =>
    (JSON.parse(text.toString()) as unknown[]).map(event => JSON.stringify(event))
  )
  return page !== undefined && whole !== undefined &&
    page.every((event, at) => whole[whole.length - page.length + at] === event)
}
