import { itemRangesIn, membersIn, type ByteRange } from './json-scan.js'
import { differOnlyInDecoding, textOf } from './decoding-difference.js'
import { modulesInBcs } from './modules-bcs.js'
import { type Read } from './read.js'
import { splitResourcesBcs } from './resources-bcs.js'

/** Response body, and the facts that explain how it was rendered. */
export interface RenderedBody {
  readonly body: Buffer
  /** Release that rendered the body; undefined if unknown. */
  readonly release: string | undefined
  /** Start of the next page; undefined on the last page. */
  readonly cursor: string | undefined
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
// Decoding changes only the payload of an event and the ABI of a module.
const eventMembers = ['version', 'guid', 'sequence_number', 'type']
const moduleMembers = ['bytecode']
const typedMembers = ['type']

/**
 * Returns true if both bodies can be correct for the same history. Releases, page limits and modules at the head change
 * rendering (docs/node-behaviour.md, "Rendering").
 */
export function isExplainedByRendering (read: Read, one: RenderedBody, other: RenderedBody): boolean {
  const { accept, endpoint: { name, keyedBy, takesCursor } } = read
  if (accept === 'bcs') {
    return takesCursor && isLongerInBcs(name === 'account_modules' ? modulesInBcs : splitResourcesBcs, one, other)
  }
  if (takesCursor) return isSameListing(name === 'account_modules' ? moduleMembers : typedMembers, one, other)
  if (name === 'account_module') return haveSameMembers(moduleMembers, one, wholeSpan(one), other, wholeSpan(other))
  switch (keyedBy) {
    case 'block':
    case 'height':
      return hasSameTransactions(one, other)
    case 'list':
      return isSameRun(one, other)
    case 'transaction':
    case 'hash':
      return haveSameMembers(committedMembers, one, wholeSpan(one), other, wholeSpan(other))
    case 'page':
      return haveSameMembers(eventMembers, one, itemRangesIn(one.body), other, itemRangesIn(other.body))
    case 'version':
    case 'moving':
      return mayDifferByRelease(one, other)
  }
}

function mayDifferByRelease (one: RenderedBody, other: RenderedBody): boolean {
  return one.release === undefined || one.release !== other.release
}

function wholeSpan ({ body }: RenderedBody): ByteRange[] {
  return [{ from: 0, to: body.length }]
}

// Operators set page limits: a longer listing continues where a shorter one ends with a cursor.
function isSameListing (names: readonly string[], one: RenderedBody, other: RenderedBody): boolean {
  const [a, b] = [itemRangesIn(one.body), itemRangesIn(other.body)]
  if (a === undefined || b === undefined) return false
  const count = Math.min(a.length, b.length)
  return mayBeCut(one, a, other, b) && haveSameMembers(names, one, a.slice(0, count), other, b.slice(0, count))
}

// Operators set page limits: a longer list of transactions continues the shorter one, as the versions show.
function isSameRun (one: RenderedBody, other: RenderedBody): boolean {
  const [a, b] = [itemRangesIn(one.body), itemRangesIn(other.body)]
  if (a === undefined || b === undefined) return false
  const count = Math.min(a.length, b.length)
  return count > 0 && haveSameMembers(committedMembers, one, a.slice(0, count), other, b.slice(0, count))
}

function isLongerInBcs (
  itemsInBcs: (body: Buffer) => string[] | undefined,
  one: RenderedBody,
  other: RenderedBody
): boolean {
  const [a, b] = [itemsInBcs(one.body), itemsInBcs(other.body)]
  if (a === undefined || b === undefined || a.length === b.length || !mayBeCut(one, a, other, b)) return false
  // Pages are sorted by name after the cut, so a shorter page need not be a prefix (docs/node-behaviour.md, "BCS").
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a]
  const all = new Set(longer)
  return shorter.every(item => all.has(item))
}

function mayBeCut (one: RenderedBody, a: readonly unknown[], other: RenderedBody, b: readonly unknown[]): boolean {
  if (a.length === b.length) return true
  const [shorter, length] = a.length < b.length ? [one, a.length] : [other, b.length]
  return shorter.cursor !== undefined && length > 0
}

function hasSameTransactions (one: RenderedBody, other: RenderedBody): boolean {
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
 * Returns true if all items are equal in these members, and differ elsewhere only by release or by further decoding.
 */
function haveSameMembers (
  names: readonly string[],
  one: RenderedBody,
  a: ByteRange[] | undefined,
  other: RenderedBody,
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
