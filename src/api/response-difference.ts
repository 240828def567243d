import { readEventPageSummary } from './body-facts.js'
import { itemRangesIn, membersIn, type ByteRange } from './json-scan.js'
import { mediaTypeIn } from './upstream-response.js'
import { namesStream, type Read } from './read.js'

/** Response to a read, with the facts that explain how it was rendered. */
export interface RenderedResponse {
  readonly status: number
  readonly contentType: string
  readonly body: Buffer
  /** Release that rendered the body; undefined if unknown. */
  readonly release: string | undefined
  /** Start of the next page; undefined on the last page. */
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
}

/**
 * Causes by which two responses to one read can differ and both be right: another release; other settings or modules of
 * the upstream; another stream of the same handle (docs/node-behaviour.md, "Rendering", "Event streams").
 */
export type HarmlessCause = 'release' | 'upstream' | 'stream'

/** First part in which two responses differ; without a cause one of them is wrong. */
export interface ResponseDifference {
  readonly part: 'status' | 'content-type' | 'body' | 'cursor'
  readonly cause: HarmlessCause | undefined
}

// Members that no release and no setting of a node changes (docs/node-behaviour.md, "Transactions").
const committedMembers = [
  'version',
  'hash',
  'state_change_hash',
  'event_root_hash',
  'state_checkpoint_hash',
  'accumulator_root_hash',
  'gas_used',
  'success',
  'timestamp'
]
// Members that no decoding changes, by kind of item: decoding changes only the payload of an event and the ABI of a
// module.
const eventMembers = ['version', 'guid', 'sequence_number', 'type']
const moduleMembers = ['bytecode']
const typedMembers = ['type']
const summaryMembers = ['sender', 'version', 'transaction_hash']

const brace = 0x7b
const bracket = 0x5b
// Exceeds the depth of all that nodes print, and bounds the recursion to the thread's stack.
const maxDepth = 100

/** Compares two responses to one read; undefined if they are equal. */
export function differenceOf (
  read: Read,
  one: RenderedResponse,
  other: RenderedResponse
): ResponseDifference | undefined {
  if (one.status !== other.status) return { part: 'status', cause: undefined }
  if (!one.body.equals(other.body)) return { part: 'body', cause: causeOf(read, one, other) }
  if (one.contentType !== other.contentType) {
    const isSameType = mediaTypeIn(one.contentType) === mediaTypeIn(other.contentType)
    return { part: 'content-type', cause: isSameType ? 'upstream' : undefined }
  }
  if (one.cursor === other.cursor && one.gasUsed === other.gasUsed) return undefined
  // The encoding of a cursor may change with the release.
  return { part: 'cursor', cause: one.release === other.release ? undefined : 'release' }
}

/** Returns the cause if both bodies can be correct for the same history. */
function causeOf (read: Read, one: RenderedResponse, other: RenderedResponse): HarmlessCause | undefined {
  if (!namesStream(read) && haveOtherStreams(read, one, other)) return 'stream'
  if (!canBothBeRight(read, one, other)) return undefined
  return mayDifferByRelease(one, other) && read.accept === 'json' ? 'release' : 'upstream'
}

function canBothBeRight (read: Read, one: RenderedResponse, other: RenderedResponse): boolean {
  const { accept, endpoint: { name, keyedBy, takesCursor } } = read
  if (accept === 'bcs') return takesCursor && isCutInBcs(one, other)
  if (takesCursor) return isSamePage(name === 'account_modules' ? moduleMembers : typedMembers, one, other, true)
  if (name === 'account_module') return haveSameMembers(moduleMembers, one, wholeSpan(one), other, wholeSpan(other))
  switch (keyedBy) {
    case 'block':
    case 'height':
      return hasSameTransactions(one, other)
    case 'list':
      return isSamePage(committedMembers, one, other, false)
    case 'transaction':
    case 'hash':
      return haveSameMembers(committedMembers, one, wholeSpan(one), other, wholeSpan(other))
    case 'sends':
      return haveSameMembers(committedMembers, one, itemRangesIn(one.body), other, itemRangesIn(other.body))
    case 'page':
      return haveSameMembers(eventMembers, one, itemRangesIn(one.body), other, itemRangesIn(other.body))
    case 'summaries':
      return isSamePage(summaryMembers, one, other, false)
    case 'version':
    case 'auxiliary':
    case 'moving':
      return mayDifferByRelease(one, other)
  }
}

function mayDifferByRelease (one: RenderedResponse, other: RenderedResponse): boolean {
  return one.release === undefined || one.release !== other.release
}

function wholeSpan ({ body }: RenderedResponse): ByteRange[] {
  return [{ from: 0, to: body.length }]
}

// Operators set page limits: a longer page continues where a shorter one ends, as its cursor or the versions show.
function isSamePage (
  names: readonly string[],
  one: RenderedResponse,
  other: RenderedResponse,
  hasCursor: boolean
): boolean {
  const [a, b] = [itemRangesIn(one.body), itemRangesIn(other.body)]
  if (a === undefined || b === undefined) return false
  const count = Math.min(a.length, b.length)
  const shorter = a.length < b.length ? one : other
  const mayBeCut = a.length === b.length || (count > 0 && (!hasCursor || shorter.cursor !== undefined))
  return mayBeCut && haveSameMembers(names, one, a.slice(0, count), other, b.slice(0, count))
}

// Compares lengths and cursors only, because BCS is not split into items.
function isCutInBcs (one: RenderedResponse, other: RenderedResponse): boolean {
  const shorter = one.body.length < other.body.length ? one : other
  return one.body.length !== other.body.length && shorter.cursor !== undefined
}

// Compares the streams of two pages, because a handle can lead to another stream later (docs/node-behaviour.md, "Event
// streams").
function haveOtherStreams (read: Read, one: RenderedResponse, other: RenderedResponse): boolean {
  if (read.page === undefined) return false
  const [a, b] = [one, other].map(({ body }) => readEventPageSummary(body)?.stream)
  return a !== undefined && b !== undefined && a !== b
}

function hasSameTransactions (one: RenderedResponse, other: RenderedResponse): boolean {
  const [a, b] = [membersIn(one.body), membersIn(other.body)]
  const [ofA, ofB] = [a?.get('transactions'), b?.get('transactions')]
  if (a === undefined || b === undefined || ofA === undefined || ofB === undefined) return false
  const isSame = [...a].every(([name, span]) =>
    name === 'transactions' || textOf(one, span) === textOf(other, b.get(name))
  )
  return isSame &&
    haveSameMembers(committedMembers, one, itemRangesIn(one.body, ofA), other, itemRangesIn(other.body, ofB))
}

/**
 * Returns true if these members are equal in all items, and other members differ only by release or by further
 * decoding.
 */
function haveSameMembers (
  names: readonly string[],
  one: RenderedResponse,
  a: ByteRange[] | undefined,
  other: RenderedResponse,
  b: ByteRange[] | undefined
): boolean {
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every((item, at) => {
    const its = b[at]
    if (its === undefined || textOf(one, item) === textOf(other, its)) return true
    const [ofA, ofB] = [membersIn(one.body, item), membersIn(other.body, its)]
    return ofA !== undefined && ofB !== undefined && names.every(name =>
      textOf(one, ofA.get(name)) === textOf(other, ofB.get(name))
    ) &&
      (mayDifferByRelease(one, other) ||
        differOnlyInDecoding({ body: one.body, span: item }, { body: other.body, span: its }))
  })
}

/** JSON value as a span of a body. */
interface JsonValue {
  readonly body: Buffer
  readonly span: ByteRange
}

/** Returns the text of a value; empty without a span. */
function textOf ({ body }: Pick<JsonValue, 'body'>, span: ByteRange | undefined): string {
  return span === undefined ? '' : body.toString('latin1', span.from, span.to)
}

/**
 * Returns true if two values differ only in how far they were decoded (docs/node-behaviour.md, "Rendering"). Allows a
 * missing member, change or event, hex against its decoded value, and null against a value. Other scalars must be
 * equal.
 */
function differOnlyInDecoding (one: JsonValue, other: JsonValue, depth = 0): boolean {
  const [a, b] = [kindOf(one), kindOf(other)]
  if (a !== b) return true
  if (depth > maxDepth || a === 'scalar') return isSameOrDecoded(textOf(one, one.span), textOf(other, other.span))
  return a === 'array' ? haveItemsAlike(one, other, depth) : haveMembersAlike(one, other, depth)
}

function haveItemsAlike (one: JsonValue, other: JsonValue, depth: number): boolean {
  const [a, b] = [itemRangesIn(one.body, one.span), itemRangesIn(other.body, other.span)]
  return a !== undefined && b !== undefined &&
    (a.length !== b.length || a.every((span, at) => isAlike(one, span, other, b[at], depth)))
}

function haveMembersAlike (one: JsonValue, other: JsonValue, depth: number): boolean {
  const [a, b] = [membersIn(one.body, one.span), membersIn(other.body, other.span)]
  if (a === undefined || b === undefined) return false
  // Event numbers depend on settings of the node, and failure texts on the modules at the head.
  const isFree = (name: string): boolean =>
    name === 'vm_status' || (a.has('guid') && (name === 'guid' || name === 'sequence_number'))
  return [...a].every(([name, span]) => isFree(name) || isAlike(one, span, other, b.get(name), depth))
}

function isAlike (one: JsonValue, a: ByteRange, other: JsonValue, b: ByteRange | undefined, depth: number): boolean {
  return b === undefined || differOnlyInDecoding({ body: one.body, span: a }, { body: other.body, span: b }, depth + 1)
}

function kindOf ({ body, span }: JsonValue): 'object' | 'array' | 'scalar' {
  const first = body[span.from]
  return first === brace ? 'object' : first === bracket ? 'array' : 'scalar'
}

function isSameOrDecoded (one: string, other: string): boolean {
  return one === other || one === 'null' || other === 'null' || one.startsWith('"0x') !== other.startsWith('"0x')
}
