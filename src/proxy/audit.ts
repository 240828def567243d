import { type Entry, computeEtag } from '../cache/entry.js'
import { findCorruptCoding } from '../cache/compressor.js'
import { contentTypeOf, type UpstreamResponse } from '../api/upstream-response.js'
import { type Coding } from '../api/accept.js'
import { type Position } from '../api/position.js'
import { differenceOf, type ResponseDifference, type HarmlessCause } from '../api/response-difference.js'
import { judge, impossibleReason } from '../api/store-verdict.js'
import { atVersion, classOf, isRenderedByRelease, type Read, stateFamilyOf } from '../api/read.js'
import { type Follower } from '../follow/follower.js'
import { upstreamRequestOf } from './fetch.js'
import { lookUpEntryAt } from './followed-reads.js'
import { readCursorAndGas, readCursorAndGasHeaders } from './cursor-and-gas-headers.js'
import { lookUpInMemory, type LookUpParts } from './look-up.js'
import { type PinnedRead } from './pinned-read.js'
import { lowestVersionOf } from './pruned-reads.js'
import { type EndpointName } from '../api/endpoints.js'
import { type Config } from '../config/schema.js'
import { type Space } from '../chain/space.js'

/** Results of an audit; `rendering` is a difference that a release or upstream setting explains. */
export const auditResults = ['equal', 'different', 'rendering', 'unavailable'] as const

/** Result of an audit. */
export type AuditResult = typeof auditResults[number]

/** Results of comparing a latest response with the one that following would have served. */
export const observedResults = ['equal', 'different', 'unknown'] as const

/** Result of comparing a latest response. */
export type ObservedResult = typeof observedResults[number]

/** Difference between a cached body and a new upstream response. */
export interface AuditDifference {
  readonly result: 'different' | 'rendering'
  /** True if following only observes, and would have served the cached body. */
  readonly isObserved: boolean
  /** Reads sent upstream and by the client; the two differ for latest reads. */
  readonly reads: readonly Read[]
  readonly space: Space
  /** Part of the response that differs. */
  readonly part: string
  /** Cause by which both responses can be right; undefined if the cached one is wrong. */
  readonly cause: HarmlessCause | undefined
  readonly upstream: string
  readonly cached: Buffer
  readonly fetched: Buffer
}

// Limits audits, each of which may hold a whole response in memory and competes with client requests.
const maxConcurrentAudits = 8

/** Samples hits for audits, limits concurrent audits, and reports differences. */
export class AuditSampler {
  readonly onDifference: (difference: AuditDifference) => void
  /** Fetches the position and release of an upstream. */
  readonly refreshUpstreamStatus: (upstream: string) => Promise<void>
  #inFlight = 0

  constructor (
    onDifference: (difference: AuditDifference) => void,
    refreshUpstreamStatus: (upstream: string) => Promise<void>
  ) {
    this.onDifference = onDifference
    this.refreshUpstreamStatus = refreshUpstreamStatus
  }

  /** Draws if a hit is audited, so that no pattern of clients escapes. */
  shouldAudit (share: number): boolean {
    return Math.random() < share
  }

  /** Runs an audit, or returns 'unavailable' at the concurrency limit. */
  async run (start: () => Promise<AuditResult>): Promise<AuditResult> {
    if (this.#inFlight >= maxConcurrentAudits) return 'unavailable'
    this.#inFlight++
    try {
      return await start()
    } finally {
      this.#inFlight--
    }
  }
}

/** Parts that compare hits with upstreams. */
export type AuditParts = LookUpParts & {
  readonly auditSampler: AuditSampler,
  readonly settings: Pick<Config, 'audit'>,
  readonly metrics: {
    audited(result: AuditResult): void,
    observed(endpoint: EndpointName, result: ObservedResult): void
  }
}

/**
 * Fetches a share of hits again, and compares them byte for byte with the upstream; no client waits. A hit at the
 * followed head is fetched at its version, and a difference also stops following.
 */
export function auditHit (context: AuditParts, read: Read, entry: Entry, followedAt?: Position): void {
  if (isDue(context, followedAt !== undefined)) auditServed(context, read, entry, followedAt)
}

/** Audits a hit that was served from a memo; looks the entry up first. */
export function auditRepeatedHit (context: AuditParts, pinned: PinnedRead, isFollowed = false): void {
  const cached = isDue(context, isFollowed) ? lookUpInMemory(context, pinned) : undefined
  if (cached !== undefined) auditServed(context, pinned.read, cached.entry, cached.followedAt)
}

function isDue ({ auditSampler, settings: { audit } }: AuditParts, isFollowed: boolean): boolean {
  // Audits no followed hit either if the share is 0.
  return auditSampler.shouldAudit(isFollowed && audit.share > 0 ? audit.followedShare : audit.share)
}

/**
 * Compares a latest response with the entry that following would have served at its head; the entry is not served. The
 * value may have changed since the head, so an audit decides on a difference.
 */
export function observeLatest (
  context: AuditParts,
  follower: Follower,
  { read, readClass, space }: PinnedRead,
  response: UpstreamResponse
): void {
  const family = stateFamilyOf(read, space)
  const { stamped, status, rest } = response
  if (readClass !== 'moving' || family === undefined || stamped === undefined || status !== 200 || rest !== undefined) {
    return
  }
  const report = (result: ObservedResult): void => {
    context.metrics.observed(read.endpoint.name, result)
    if (result === 'equal') follower.recordSaved()
  }
  const head = follower.observedHead?.position
  const at = head !== undefined && head.head.version < stamped.position.head.version ? head : stamped.position
  const entry = head && lookUpEntryAt(context, follower, read, family, at.head.version)
  if (entry === undefined) return report('unknown')
  if (entry.etag === computeEtag(contentTypeOf(response), response.body)) return report('equal')
  startAudit(context, { read, entry, isObserved: true }, at, result => {
    report(result === 'rendering' || result === 'unavailable' ? 'unknown' : result)
  })
}

function auditServed (context: AuditParts, read: Read, entry: Entry, followedAt?: Position): void {
  startAudit(context, { read, entry, isObserved: false }, followedAt ?? entry.readAt, result => {
    context.metrics.audited(result)
    if (result === 'different' && followedAt !== undefined) {
      context.follower?.setState('stopped', `an audit found a wrong ${read.endpoint.name} at the followed head`)
    }
  })
}

function startAudit (
  context: AuditParts,
  hit: Pick<AuditedHit, 'read' | 'entry' | 'isObserved'>,
  readAt: Position | undefined,
  report: (result: AuditResult) => void
): void {
  const fetchedRead = auditedReadOf(hit.read, readAt)
  if (fetchedRead === undefined) return
  const invalidationCount = context.invalidator.count
  context.auditSampler.run(async () => await compareWithUpstream(context, { ...hit, fetchedRead, invalidationCount }))
    .then(report, () => report('unavailable'))
}

// Latest state is history at its stamped version; the index, node info and gas estimates cannot be fetched again.
function auditedReadOf (read: Read, readAt: Position | undefined): Read | undefined {
  if (classOf(read) !== 'moving') return read
  return readAt !== undefined && read.endpoint.keyedBy === 'version' ? atVersion(read, readAt.head.version) : undefined
}

/** Hit with the client's read, the versioned read to fetch, the served entry, and the purge count at that time. */
interface AuditedHit {
  readonly read: Read
  readonly fetchedRead: Read
  readonly entry: Entry
  readonly invalidationCount: number
  /** True if following would have served the entry, and only observes. */
  readonly isObserved: boolean
}

async function compareWithUpstream (context: AuditParts, audited: AuditedHit, isRetry = false): Promise<AuditResult> {
  const { fetchedRead: read, entry, invalidationCount, isObserved } = audited
  const { space } = context.tracker
  const version = lowestVersionOf(read, entry)
  if (space === undefined || version === undefined) return 'unavailable'
  const response = await context.upstreamPool.fetchInBackground(upstreamRequestOf(read), {
    version,
    release: entry.release,
    // Allows any upstream for a response that no release renders differently, and for an entry of unknown release.
    allowsOtherReleases: !isRenderedByRelease(read, entry.status) || entry.release === undefined
  })
  response?.rest?.destroy()
  if (
    response === undefined || !context.tracker.isCurrent(space) || impossibleReason(read, response) !== undefined ||
    judge(read, response, context.settings.pages).lifetime === undefined
  ) {
    return 'unavailable'
  }
  const { upstream } = response.source
  const difference = await findDifference(context, read, entry, response)
  if (difference === undefined) return 'equal'
  const { part, cause } = difference
  const result = cause === undefined ? 'different' : 'rendering'
  if (result === 'different' && part === 'body' && isRenderedByRelease(read, entry.status) && !isRetry) {
    // Polls twice, because the upstream may have been upgraded after the first poll began (law 8: rendering can change,
    // history cannot).
    await context.auditSampler.refreshUpstreamStatus(upstream)
    await context.auditSampler.refreshUpstreamStatus(upstream)
    return await compareWithUpstream(context, audited, true)
  }
  // Ignores an entry that was purged or replaced meanwhile, which must not be invalidated again.
  const current = context.memory.getByKey(entry.key)
  if (
    context.invalidator.hasInvalidated(entry, invalidationCount) ||
    (current !== undefined && current.body !== entry.body)
  ) return 'unavailable'
  // Deletes the entry here first, since the purge of other tiers and replicas may fail. An entry that was only
  // observed, and not served, is right at its own version.
  if (!isObserved) context.memory.drop(space, { keys: [entry.key], intervals: [] })
  context.auditSampler.onDifference({
    result,
    isObserved,
    reads: [...new Set([read, audited.read])],
    space,
    part,
    cause,
    upstream,
    cached: entry.body,
    fetched: response.body
  })
  return result
}

/** Finds the difference between an entry and a new response to its read; a coding means a corrupt compressed form. */
async function findDifference (
  context: AuditParts,
  read: Read,
  entry: Entry,
  response: UpstreamResponse
): Promise<ResponseDifference | { readonly part: Coding, readonly cause?: undefined } | undefined> {
  const difference = differenceOf(read, { ...entry, ...readCursorAndGasHeaders(entry.cursorAndGasHeaders) }, {
    ...response,
    contentType: contentTypeOf(response),
    ...readCursorAndGas(response, context.tracker.family)
  })
  if (difference?.part === 'body' && computeEtag(entry.contentType, entry.body) !== entry.etag) {
    // Blames no release if the entry itself differs from its stored form.
    return { part: 'body', cause: undefined }
  }
  if (difference !== undefined) return difference
  const part = await findCorruptCoding(context.memory.latestOf(entry) ?? entry)
  return part && { part }
}
