import { type Entry, tagOf } from '../cache/entry.js'
import { wrongFormOf } from '../cache/wrong-form.js'
import { type Word } from '../upstreams/spare.js'
import { contentTypeOf, mediaTypeOf } from '../api/answer.js'
import { type Coding } from '../api/coding.js'
import { isExplained, type Said } from '../api/explained.js'
import { judge, untruth } from '../api/lifetime.js'
import { atVersion, classOf, isRendered, momentKeyOf, type Read, type ReadKeys } from '../api/read.js'
import { type AuditResult } from './auditor.js'
import { isReset, questionOf } from './ask.js'
import { cursorIn, ownValues } from './own-lines.js'
import { type Parts } from './parts.js'
import { saysPruned } from './events/streams.js'
import { lookUp, versionOf } from './window.js'

/**
 * Has a share of what is answered from the cache read again and held against what a node says now, byte for byte; no
 * answer waits for that.
 */
export function auditHit (parts: Parts, read: Read, entry: Entry): void {
  if (parts.auditor.draws(parts.settings.auditShare)) audit(parts, read, entry)
}

/** The same for what was given once more without a look at what is kept. */
export function auditAgain (parts: Parts, read: Read, keys: ReadKeys): void {
  if (!parts.auditor.draws(parts.settings.auditShare)) return
  const entry = classOf(read) === 'moving' ? parts.memory.get(momentKeyOf(keys)) : lookUp(parts, read, keys)
  if (entry !== undefined) audit(parts, read, entry)
}

function audit (parts: Parts, read: Read, entry: Entry): void {
  const asked = askedOf(read, entry)
  if (asked === undefined) return
  const purges = parts.forgetting.times
  parts.auditor.audit(async () => await compared(parts, { read, asked, entry, purges })).then(result => {
    parts.tally.audited(result)
  }, () => {
    parts.tally.audited('unavailable')
  })
}

// What a state of the moment turned out to be is history too; what nodes know or reckon of the moment cannot be had
// again.
function askedOf (read: Read, { readAt }: Entry): Read | undefined {
  if (classOf(read) !== 'moving') return read
  return readAt !== undefined && read.endpoint.keyedBy === 'version' ? atVersion(read, readAt.head.version) : undefined
}

/** A hit: what was asked for, what history that is, what was given, and how many purges there had been. */
interface Audited {
  readonly read: Read
  readonly asked: Read
  readonly entry: Entry
  readonly purges: number
}

async function compared (parts: Parts, audited: Audited, isSettled = false): Promise<AuditResult> {
  const { asked: read, entry, purges } = audited
  const { chain } = parts.tracker
  const version = versionOf(read, entry)
  if (chain === undefined || version === undefined) return 'unavailable'
  const word = await parts.nodes.askSpare(questionOf({ client: undefined }, read), {
    version,
    release: entry.release,
    // What no release shows in can be told by any node; an entry of no known release counts as one of today.
    takesOthers: !isRendered(read, entry.status) || entry.release === undefined
  }, answer => untruth(read, answer) !== undefined ? 'untrue' : saysPruned(answer) ? 'gone' : undefined)
  word?.answer.rest?.destroy()
  if (word === undefined || isReset(parts, chain) || judge(read, word.answer, parts.settings).lifetime === undefined) {
    return 'unavailable'
  }
  const where = await differenceOf(parts, entry, word)
  if (where === undefined) return 'equal'
  const result = isHarmless(read, entry, word, where, parts.tracker.family) ? 'rendering' : 'different'
  if (result === 'different' && where === 'body' && isRendered(read, entry.status) && !isSettled) {
    // The node may have been upgraded since it was last asked what it runs (law 8); asked twice, since the first
    // question may have been on its way before that.
    await parts.auditor.looksAt(word.node)
    await parts.auditor.looksAt(word.node)
    return await compared(parts, audited, true)
  }
  // What has been purged, or replaced, meanwhile is none to be forgotten once more.
  const now = parts.memory.get(entry.key)
  if (parts.forgetting.hasMeant(entry, purges) || (now !== undefined && now.body !== entry.body)) return 'unavailable'
  // At once, whatever becomes of telling the others.
  parts.memory.delete(entry.key)
  parts.auditor.differs({
    result,
    reads: [...new Set([read, audited.read])],
    chain,
    where,
    node: word.node,
    kept: entry.body,
    said: word.answer.body
  })
  return result
}

/** The part of an answer that differs. */
type Where = 'status' | 'content-type' | 'body' | 'cursor' | Coding

async function differenceOf (parts: Parts, entry: Entry, { answer }: Word): Promise<Where | undefined> {
  if (answer.status !== entry.status) return 'status'
  if (!answer.body.equals(entry.body)) return 'body'
  if (contentTypeOf(answer) !== entry.contentType) return 'content-type'
  const { cursor, gasUsed } = ownValues(answer, parts.tracker.family)
  const values = new Set(entry.ownLines.filter((_line, at) => at % 2 === 1))
  if ([...values].join() !== [...new Set([cursor, gasUsed])].filter(value => value !== undefined).join()) {
    return 'cursor'
  }
  return await wrongFormOf(parts.memory.latestOf(entry) ?? entry)
}

/**
 * Whether nothing is wrong with what was kept, as far as can be told: it is what some node said, and that may have said
 * so.
 */
function isHarmless (read: Read, entry: Entry, { answer }: Word, where: Where, family: string | undefined): boolean {
  if (where === 'content-type') {
    return mediaTypeOf(answer) === entry.contentType.split(';', 1).join('').trim().toLowerCase()
  }
  // How a cursor encodes where a page ends is the release's own affair.
  if (where === 'cursor') return entry.release !== answer.release
  return where === 'body' && tagOf(entry.contentType, entry.body) === entry.etag &&
    isExplained(read, saidBy(entry), { ...answer, cursor: ownValues(answer, family).cursor })
}

function saidBy ({ body, release, ownLines }: Entry): Said {
  return { body, release, cursor: cursorIn(ownLines) }
}
