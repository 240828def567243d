import { readBlockSummary } from '../../api/block-summary.js'
import { readU64 } from '../../api/integer.js'
import { headerSuffix } from '../../api/position.js'
import { blockByVersionTarget } from '../../api/request-targets.js'
import { UnreachableError } from './warm-client.js'
import { bodyExcerptOf, type ProxyResponse, headerValueIn } from './proxy-response.js'
import { type WarmContext, type WarmJob } from './warm-job.js'

/** Version range to warm, both ends included. */
export interface VersionSpan {
  readonly from: bigint
  readonly to: bigint
  /** Fetches blocks together with their transactions. */
  readonly transactions: boolean
}

/** Part of the range that one worker walks block by block. */
interface Segment {
  nextVersion: bigint
  readonly to: bigint
}

// Bounds the segment length; a segment's first block may also be the last of the one before.
const blocksPerSegment = 50n
// Length of the first segments in versions, before the usual block length is known.
const firstSegmentVersions = 100n
// More than the number of segments in flight.
const maxBoundaryBlocks = 512

/** Fetches every block of a range once, except at segment boundaries. */
export class VersionRangeJob implements WarmJob {
  readonly noun = { one: 'block', many: 'blocks' }
  readonly skippedNote = undefined
  blocks = 0
  /** Number of versions that all upstreams have pruned. */
  pruned = 0n
  #nextUnclaimed: bigint
  #done = 0n
  #versions = 0n
  #oldest = 0n
  // Newest version of the chain; undefined until known.
  #head: bigint | undefined
  readonly #range: VersionSpan
  readonly #activeSegments = new Set<Segment>()
  // Blocks across segment boundaries, which must not be fetched or counted once per segment.
  readonly #boundaryBlocks: Array<{ readonly first: bigint, readonly last: bigint }> = []

  constructor (range: VersionSpan) {
    this.#range = range
    this.#nextUnclaimed = range.from
  }

  get reads (): number {
    return this.blocks
  }

  get share (): number {
    const { from, to } = this.#range
    return Number(this.#done * 10_000n / (to - from + 1n)) / 10_000
  }

  /** Lowest version that was not fetched. */
  get #lowestUnread (): bigint {
    let left = this.#nextUnclaimed
    for (const { nextVersion } of this.#activeSegments) if (nextVersion < left) left = nextVersion
    return left
  }

  get resume (): readonly string[] | undefined {
    const { to, transactions } = this.#range
    const left = this.#lowestUnread
    return left > to
      ? undefined
      : ['--from', String(left), '--to', String(to), ...(transactions ? ['--transactions'] : [])]
  }

  get unreadNote (): string | undefined {
    const lost = [
      ...(this.pruned > 0n
        ? [
          `${this.pruned} ${
            this.pruned === 1n ? 'version is' : 'versions are'
          } below the upstreams' oldest version, ${this.#oldest}`
        ]
        : []),
      ...(this.#head !== undefined ? [`the head is version ${this.#head}`] : [])
    ]
    return lost.length > 0 ? lost.join('; ') : undefined
  }

  async work (context: WarmContext): Promise<void> {
    while (!context.signal.aborted) {
      const segment = this.#claimSegment()
      if (segment === undefined) return
      this.#activeSegments.add(segment)
      if (!await this.#readSegment(segment, context)) return
      this.#activeSegments.delete(segment)
    }
  }

  #claimSegment (): Segment | undefined {
    const { to } = this.#range
    // Pruned versions are skipped as a range instead of requested one by one.
    if (this.#nextUnclaimed < this.#oldest) this.#skipPruned(this.#nextUnclaimed, min(this.#oldest - 1n, to))
    if (this.#nextUnclaimed < this.#oldest) this.#nextUnclaimed = this.#oldest
    this.#nextUnclaimed += this.#skipBoundaryBlock(this.#nextUnclaimed, to)
    if (this.#nextUnclaimed > to || (this.#head !== undefined && this.#nextUnclaimed > this.#head)) return undefined
    const length = this.blocks === 0
      ? firstSegmentVersions
      : max(1n, this.#versions * blocksPerSegment / BigInt(this.blocks))
    const segment = { nextVersion: this.#nextUnclaimed, to: min(this.#nextUnclaimed + length - 1n, to) }
    this.#nextUnclaimed = segment.to + 1n
    return segment
  }

  /** Returns true after the end of the segment. */
  async #readSegment (segment: Segment, { client, counts }: WarmContext): Promise<boolean> {
    const begin = segment.nextVersion
    for (;;) {
      segment.nextVersion += this.#skipBoundaryBlock(segment.nextVersion, segment.to)
      if (segment.nextVersion > segment.to) return true
      const response = await client.fetch({
        method: 'GET',
        target: blockByVersionTarget(segment.nextVersion, this.#range.transactions)
      })
      if (response === undefined) return false
      if (response.status === 410) {
        if (!this.#skipToOldest(segment, response)) return false
        continue
      }
      const head = response.status === 404 ? headerVersionIn(response, headerSuffix.version) : undefined
      if (head !== undefined && head < segment.nextVersion) {
        // Other segments continue, because versions below the head still exist.
        this.#head = max(this.#head ?? 0n, head)
        return false
      }
      const block = response.status === 200 ? readBlockSummary(response.body, 'json') : undefined
      if (block === undefined || block.last < segment.nextVersion) {
        throw new UnreachableError(`version ${segment.nextVersion} cannot be read: ${describeResponse(response)}`)
      }
      if (this.#isFirstRead(block, begin, segment.to)) {
        counts.count(response)
        this.blocks++
        this.#versions += block.last - block.first + 1n
      }
      this.#done += min(block.last, segment.to) - segment.nextVersion + 1n
      segment.nextVersion = block.last + 1n
    }
  }

  /** Returns true if no other segment has counted this block. */
  #isFirstRead (block: { readonly first: bigint, readonly last: bigint }, from: bigint, to: bigint): boolean {
    if (from <= block.first && block.last <= to) return true
    if (this.#boundaryBlocks.some(({ first }) => first === block.first)) return false
    this.#boundaryBlocks.push(block)
    if (this.#boundaryBlocks.length > maxBoundaryBlocks) this.#boundaryBlocks.shift()
    return true
  }

  /** Returns the number of versions to skip because their block was already fetched, and counts them as done. */
  #skipBoundaryBlock (from: bigint, to: bigint): bigint {
    const block = this.#boundaryBlocks.find(({ first, last }) => first <= from && from <= last)
    const versions = block === undefined || from > to ? 0n : min(block.last, to) - from + 1n
    this.#done += versions
    return versions
  }

  #skipToOldest (segment: Segment, response: ProxyResponse): boolean {
    const oldest = headerVersionIn(response, headerSuffix.oldestVersion)
    if (oldest === undefined || oldest <= segment.nextVersion) {
      throw new UnreachableError(`version ${segment.nextVersion} cannot be read: ${describeResponse(response)}`)
    }
    this.#oldest = max(this.#oldest, oldest)
    this.#skipPruned(segment.nextVersion, min(oldest - 1n, segment.to))
    segment.nextVersion = oldest
    return true
  }

  #skipPruned (from: bigint, to: bigint): void {
    this.pruned += to - from + 1n
    this.#done += to - from + 1n
  }
}

// Matches by suffix, because each chain family has its own prefix (docs/node-behaviour.md, "Position headers").
function headerVersionIn ({ headers }: ProxyResponse, suffix: string): bigint | undefined {
  const value = Object.entries(headers).find(([name]) => name.endsWith(`-${suffix}`))?.[1]
  return typeof value === 'string' ? readU64(value) : undefined
}

function describeResponse (response: ProxyResponse): string {
  const { status, body } = response
  const bodyDescription = body.length === 0 ? 'with nothing in it' : bodyExcerptOf(response)
  return `the response is ${status}, ${bodyDescription}${
    headerValueIn(response, 'cache-status') === undefined ? '; this is not varve: check --url' : ''
  }`
}

function min (a: bigint, b: bigint): bigint {
  return a < b ? a : b
}

function max (a: bigint, b: bigint): bigint {
  return a > b ? a : b
}
