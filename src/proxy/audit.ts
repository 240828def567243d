import { type Entry, tagOf } from '../cache/entry.js'
import { wrongFormOf } from '../cache/wrong-form.js'
import { type Word } from '../nodes/spare.js'
import { type Answer, contentTypeOf, errorCodeOf, mediaTypeOf } from '../reads/answer.js'
import { type Coding } from '../reads/coding.js'
import { isExplained } from '../reads/explained.js'
import { judge, untruth } from '../reads/lifetime.js'
import { atVersion, isRendered, type Read, type ReadKeys } from '../reads/read.js'
import { type AuditResult } from './auditor.js'
import { isReset, questionOf } from './ask.js'
import { ownValues } from './own-lines.js'
import { type Parts } from './parts.js'
import { saysPruned } from './streams.js'
import { lookUp } from './window.js'

/** Has a share of what is answered from the cache read again and held against what a node says now, byte for byte; no answer waits for that. */
export function auditHit (parts: Parts, read: Read, entry: Entry): void {
  if (parts.auditor.draws(parts.settings.auditShare)) audit(parts, read, entry)
}

/** The same for what was given once more without a look at what is kept. */
export function auditAgain (parts: Parts, read: Read, keys: ReadKeys): void {
  if (!parts.auditor.draws(parts.settings.auditShare)) return
  const entry = lookUp(parts, read, keys)
  if (entry !== undefined) audit(parts, read, entry)
}

function audit (parts: Parts, read: Read, entry: Entry): void {
  const asked = askedOf(read, entry)
  if (asked === undefined) return
  parts.auditor.audit(async () => await compared(parts, asked, entry)).then(result => { parts.tally.audited(result) }, () => { parts.tally.audited('unavailable') })
}

// What a state of the moment turned out to be is history too; what nodes know or reckon of the moment cannot be had again.
function askedOf (read: Read, { readAt }: Entry): Read | undefined {
  if (read.speaksOf !== undefined || read.page !== undefined) return read
  return readAt !== undefined && read.endpoint.keyedBy === 'version' ? atVersion(read, readAt.head.version) : undefined
}

async function compared (parts: Parts, read: Read, entry: Entry, isSettled = false): Promise<AuditResult> {
  const { chain } = parts.tracker
  const version = read.speaksOf ?? entry.lowestVersion
  if (chain === undefined || version === undefined) return 'unavailable'
  const word = await parts.nodes.askSpare(questionOf({ client: undefined }, read), {
    version,
    release: entry.release,
    // What no release shows in can be told by any node; an entry of no known release counts as one of today.
    takesOthers: !isRendered(read) || entry.release === undefined
  }, answer => untruth(read, answer) !== undefined ? 'untrue' : saysPruned(answer) ? 'gone' : undefined)
  word?.answer.rest?.destroy()
  if (word === undefined || isReset(parts, chain) || !isWordOn(parts, read, entry, word.answer)) return 'unavailable'
  const where = await differenceOf(parts, entry, word)
  if (where === undefined) return 'equal'
  const result = isHarmless(read, entry, word, where) ? 'rendering' : 'different'
  if (result === 'different' && where === 'body' && isRendered(read) && !isSettled) {
    // The node may have been upgraded since it was last asked what it runs (law 8); asked twice, since the first question may have been on its way before that.
    await parts.auditor.looksAt(word.node)
    await parts.auditor.looksAt(word.node)
    return await compared(parts, read, entry, true)
  }
  // At once, whatever becomes of telling the others.
  parts.memory.delete(entry.key)
  parts.auditor.differs({ result, read, chain, where, node: word.node, kept: entry.body, said: word.answer.body })
  return result
}

/** Whether an answer is one on the history that was kept: not that the node lags, has forgotten, cuts short, or may not tell. */
function isWordOn (parts: Parts, read: Read, entry: Entry, answer: Answer): boolean {
  if (judge(read, answer, parts.settings).lifetime !== undefined) return true
  const code = String(errorCodeOf(answer))
  // The path to a stream can come to mean nothing, with every event still there.
  return read.endpoint.keyedBy === 'version' && entry.status === 200 && answer.status === 404 && answer.stamped !== undefined &&
    code.endsWith('_not_found') && code !== 'version_not_found'
}

/** The part of an answer that differs. */
type Where = 'status' | 'content-type' | 'body' | 'cursor' | Coding

async function differenceOf (parts: Parts, entry: Entry, { answer }: Word): Promise<Where | undefined> {
  if (answer.status !== entry.status) return 'status'
  if (!answer.body.equals(entry.body)) return 'body'
  if (contentTypeOf(answer) !== entry.contentType) return 'content-type'
  const { cursor, gasUsed } = ownValues(answer, parts.tracker.family)
  const values = new Set(entry.ownLines.filter((_line, at) => at % 2 === 1))
  if ([...values].join() !== [...new Set([cursor, gasUsed])].filter(value => value !== undefined).join()) return 'cursor'
  return await wrongFormOf(parts.memory.latestOf(entry) ?? entry)
}

/** Whether nothing is wrong with what was kept, as far as can be told: it is what some node said, and that may have said so. */
function isHarmless (read: Read, entry: Entry, { answer }: Word, where: Where): boolean {
  if (where === 'content-type') return mediaTypeOf(answer) === entry.contentType.split(';', 1).join('').trim().toLowerCase()
  // How a cursor encodes where a page ends is the release's own affair.
  if (where === 'cursor') return entry.release !== answer.release
  return where === 'body' && tagOf(entry.contentType, entry.body) === entry.etag && isExplained(read, entry, answer)
}
