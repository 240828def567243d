import { type Entry, etagOf } from '../cache/entry.js'
import { findCorruptCoding } from '../cache/corrupt-coding.js'
import { type BackgroundResponse } from '../upstreams/background-candidates.js'
import { contentTypeOf, mediaTypeOf } from '../api/upstream-response.js'
import { type Coding } from '../api/coding.js'
import { isExplainedByRendering, type RenderedBody } from '../api/rendering-difference.js'
import { judge, impossibleReason } from '../api/lifetime.js'
import { atVersion, classOf, isRendered, microCacheKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { type AuditResult } from './auditor.js'
import { isReset, upstreamRequestOf } from './fetch-and-judge.js'
import { readCursorHeader, readPerResponseValues } from './per-response-headers.js'
import { type ProxyContext } from './proxy-context.js'
import { reportsPruned } from './events/event-streams.js'
import { lookUp, lowestVersionOf } from './memory-lookup.js'

/**
 * Has a share of what is answered from the cache read again and held against what a node says now, byte for byte; no
 * answer waits for that.
 */
export function auditHit (context: ProxyContext, read: Read, entry: Entry): void {
  if (context.auditor.shouldAudit(context.settings.auditShare)) startAudit(context, read, entry)
}

/** The same for what was given once more without a look at what is kept. */
export function auditRepeatedHit (context: ProxyContext, read: Read, keys: ReadKeys): void {
  if (!context.auditor.shouldAudit(context.settings.auditShare)) return
  const entry = classOf(read) === 'moving' ? context.memory.get(microCacheKeyOf(keys)) : lookUp(context, read, keys)
  if (entry !== undefined) startAudit(context, read, entry)
}

function startAudit (context: ProxyContext, read: Read, entry: Entry): void {
  const fetchedRead = auditedReadOf(read, entry)
  if (fetchedRead === undefined) return
  const invalidationCount = context.invalidator.count
  context.auditor.run(async () => await compareWithUpstream(context, { read, fetchedRead, entry, invalidationCount }))
    .then(result => {
      context.tally.audited(result)
    }, () => {
      context.tally.audited('unavailable')
    })
}

// What a state of the moment turned out to be is history too; what nodes know or reckon of the moment cannot be had
// again.
function auditedReadOf (read: Read, { readAt }: Entry): Read | undefined {
  if (classOf(read) !== 'moving') return read
  return readAt !== undefined && read.endpoint.keyedBy === 'version' ? atVersion(read, readAt.head.version) : undefined
}

/** A hit: what was asked for, what history that is, what was given, and how many purges there had been. */
interface AuditedHit {
  readonly read: Read
  readonly fetchedRead: Read
  readonly entry: Entry
  readonly invalidationCount: number
}

async function compareWithUpstream (context: ProxyContext, audited: AuditedHit, isRetry = false): Promise<AuditResult> {
  const { fetchedRead: read, entry, invalidationCount } = audited
  const { chain } = context.tracker
  const version = lowestVersionOf(read, entry)
  if (chain === undefined || version === undefined) return 'unavailable'
  const background = await context.upstreamPool.fetchInBackground(
    upstreamRequestOf({ clientId: undefined }, read),
    {
      version,
      release: entry.release,
      // What no release shows in can be told by any node; an entry of no known release counts as one of today.
      allowsOtherReleases: !isRendered(read, entry.status) || entry.release === undefined
    },
    response =>
      impossibleReason(read, response) !== undefined ? 'impossible' : reportsPruned(response) ? 'pruned' : undefined
  )
  background?.response.rest?.destroy()
  if (
    background === undefined || isReset(context, chain) ||
    judge(read, background.response, context.settings).lifetime === undefined
  ) {
    return 'unavailable'
  }
  const part = await findDifference(context, entry, background)
  if (part === undefined) return 'equal'
  const result = isHarmless(read, entry, background, part, context.tracker.family) ? 'rendering' : 'different'
  if (result === 'different' && part === 'body' && isRendered(read, entry.status) && !isRetry) {
    // The node may have been upgraded since it was last asked what it runs (law 8); asked twice, since the first
    // question may have been on its way before that.
    await context.auditor.refreshUpstreamStatus(background.upstream)
    await context.auditor.refreshUpstreamStatus(background.upstream)
    return await compareWithUpstream(context, audited, true)
  }
  // What has been purged, or replaced, meanwhile is none to be forgotten once more.
  const current = context.memory.get(entry.key)
  if (
    context.invalidator.hasInvalidated(entry, invalidationCount) ||
    (current !== undefined && current.body !== entry.body)
  ) return 'unavailable'
  // At once, whatever becomes of telling the others.
  context.memory.delete(entry.key)
  context.auditor.onDifference({
    result,
    reads: [...new Set([read, audited.read])],
    chain,
    part,
    upstream: background.upstream,
    cached: entry.body,
    fetched: background.response.body
  })
  return result
}

/** The part of an answer that differs. */
type DifferingPart = 'status' | 'content-type' | 'body' | 'cursor' | Coding

async function findDifference (
  context: ProxyContext,
  entry: Entry,
  { response }: BackgroundResponse
): Promise<DifferingPart | undefined> {
  if (response.status !== entry.status) return 'status'
  if (!response.body.equals(entry.body)) return 'body'
  if (contentTypeOf(response) !== entry.contentType) return 'content-type'
  const { cursor, gasUsed } = readPerResponseValues(response, context.tracker.family)
  const values = new Set(entry.perResponseHeaders.filter((_line, at) => at % 2 === 1))
  if ([...values].join() !== [...new Set([cursor, gasUsed])].filter(value => value !== undefined).join()) {
    return 'cursor'
  }
  return await findCorruptCoding(context.memory.latestOf(entry) ?? entry)
}

/**
 * Whether nothing is wrong with what was kept, as far as can be told: it is what some node said, and that may have said
 * so.
 */
function isHarmless (
  read: Read,
  entry: Entry,
  { response }: BackgroundResponse,
  part: DifferingPart,
  family: string | undefined
): boolean {
  if (part === 'content-type') {
    return mediaTypeOf(response) === entry.contentType.split(';', 1).join('').trim().toLowerCase()
  }
  // How a cursor encodes where a page ends is the release's own affair.
  if (part === 'cursor') return entry.release !== response.release
  return part === 'body' && etagOf(entry.contentType, entry.body) === entry.etag &&
    isExplainedByRendering(read, renderedBodyOf(entry), {
      ...response,
      cursor: readPerResponseValues(response, family).cursor
    })
}

function renderedBodyOf ({ body, release, perResponseHeaders }: Entry): RenderedBody {
  return { body, release, cursor: readCursorHeader(perResponseHeaders) }
}
