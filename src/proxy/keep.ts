import { type Entry, makeEntry } from '../cache/entry.js'
import { sharedName } from '../cache/shared-name.js'
import { type Stored } from '../cache/stored.js'
import { type Chain } from '../chain/tracker.js'
import { type Answer, contentTypeOf } from '../api/answer.js'
import { type Judged, type Lifetime, type NotKeptReason, whyNeverKept } from '../api/lifetime.js'
import { blockKeyOf, momentKeyOf, pagesOf, type Read, type ReadKeys } from '../api/read.js'
import { isReset } from './ask.js'
import { heldMs, heldOutcome } from './held.js'
import { type Fetched } from './outcomes.js'
import { ownLines, ownValues } from './own-lines.js'
import { filedAs } from './events/pages.js'
import { type Parts } from './parts.js'
import { hidesPruning } from './events/streams.js'

/** Keeps an answer that is proven history, or says why not. */
export function keep (parts: Parts, read: Read, keys: ReadKeys, chain: Chain, judged: Judged): Fetched {
  const { answer, verdict } = judged
  // A chain that was reset while this read was under way leaves nothing behind under the old generation's keys.
  if (isReset(parts, chain)) return notKept(parts, read, answer, 'wrong_chain')
  if (verdict.lifetime === undefined) {
    return notKept(parts, read, answer, hidesPruning(parts, read, chain, judged) ? 'pruned_page' : verdict.notKept)
  }
  const entry = entryOf(parts, read, keys, chain, answer, verdict.lifetime)
  return parts.memory.set(entry) ? { answer, entry, notKept: undefined } : notKept(parts, read, answer, 'too_large')
}

/** Shares with the other replicas what was kept here; what a latest read has taught is not worth their while. */
export function share (
  parts: Parts,
  read: Read,
  chain: Chain,
  { answer, entry }: Fetched,
  ttlMs: number | undefined
): void {
  const { stamped } = answer
  if (parts.shared === undefined || entry === undefined || stamped === undefined) return
  const { key, status, contentType, body, etag, release, lowestVersion, block, page } = entry
  const stored: Stored = {
    key,
    status,
    contentType,
    body,
    etag,
    release,
    lowestVersion,
    range: block,
    stamped,
    ...ownValues(answer, stamped.family)
  }
  const path = pagesOf(chain, read.path)
  const told = page && parts.streamNames.toShare(path)
  const name = told && sharedName(path, told.stream, stamped, told.expiresAtMs - parts.now())
  parts.shared.keep({ stored, blocks: block?.blocks, page, name, ttlMs })
}

/** Holds an answer of the moment for as long as an operator allows, counted from when it was asked for. */
export function keepForAMoment (
  parts: Parts,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  answer: Answer,
  askedAtMs: number
): void {
  const key = momentKeyOf(keys)
  const forMs = heldMs(parts.settings, read)
  // What is held already is not made younger by one who only observes, but by one for whom it is too old.
  const isHeld = heldOutcome(parts, read, keys) !== undefined
  if (forMs === 0 || isReset(parts, chain) || whyNeverKept(read, answer) !== undefined || isHeld) return
  const isState = read.endpoint.keyedBy === 'version'
  const readAt = answer.stamped?.position
  // A state that says not when it was read is of no known age; and only a state's not-found is an answer.
  if (isState ? readAt === undefined : answer.status !== 200) return
  parts.memory.set(makeEntry({ ...partsOf(parts, answer), key, expiresAtMs: askedAtMs + forMs, readAt }))
}

function entryOf (
  parts: Parts,
  read: Read,
  keys: ReadKeys,
  chain: Chain,
  answer: Answer,
  { ttlMs, block, page, lowestVersion }: Lifetime
): Entry {
  const { blocks } = keys
  const isBlock = block !== undefined && blocks !== undefined
  const filed = filedAs(read, chain, page)
  return makeEntry({
    ...partsOf(parts, answer),
    key: isBlock
      ? blockKeyOf(blocks, block.height)
      : filed !== undefined
      ? filed.key
      : answer.status === 200
      ? keys.value
      : keys.text,
    expiresAtMs: ttlMs === undefined ? undefined : parts.now() + ttlMs,
    block: isBlock ? { blocks, first: block.first, last: block.last } : undefined,
    page: filed?.range,
    lowestVersion
  })
}

function notKept (parts: Parts, read: Read, answer: Answer, reason: NotKeptReason): Fetched {
  parts.tally.notKept(read.endpoint.name, reason)
  return { answer, entry: undefined, notKept: reason }
}

function partsOf (
  parts: Parts,
  answer: Answer
): Pick<Parameters<typeof makeEntry>[0], 'status' | 'contentType' | 'body' | 'ownLines' | 'release'> {
  return {
    status: answer.status === 200 ? 200 : 404,
    contentType: contentTypeOf(answer),
    body: answer.body,
    ownLines: ownLines(ownValues(answer, parts.tracker.family), parts.settings.emit, parts.tracker.family),
    release: answer.release
  }
}
