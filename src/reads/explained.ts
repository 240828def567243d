import { itemsIn, membersIn, type Span } from './json-scan.js'
import { type Accept } from './accept.js'
import { modulesInBcs } from './modules-bcs.js'
import { type Read } from './read.js'

/** What a node said to a read, at some time. */
export interface Said {
  readonly body: Buffer
  /** The release that rendered it; undefined where it was not known. */
  readonly release: string | undefined
}

// What a transaction commits to: no release and no setting of a node shows in these (facts, section 6, catches 2 to 4).
const committed = ['version', 'hash', 'state_change_hash', 'event_root_hash', 'state_checkpoint_hash', 'accumulator_root_hash', 'gas_used', 'success', 'timestamp']
// Of an event only the payload is decoded.
const numbered = ['version', 'guid', 'sequence_number', 'type']

/**
 * Whether two nodes, or one at two times, may have said both of these of the same history: a release renders what it knows, an operator sets how long pages are,
 * and transactions and events are decoded by the modules of the head (facts, section 6).
 */
export function isExplained (read: Read, one: Said, other: Said): boolean {
  const { accept, endpoint: { keyedBy, takesCursor } } = read
  if (takesCursor && isSameListing(accept, one.body, other.body)) return true
  if (accept === 'bcs') return false
  switch (keyedBy) {
    case 'block': return hasSameTransactions(one.body, other.body)
    case 'page': return haveSame(numbered, one.body, itemsIn(one.body), other.body, itemsIn(other.body))
    case 'version': case 'moment': return one.release === undefined || one.release !== other.release
  }
}

// A listing that an operator lets be longer goes on where another ends.
function isSameListing (accept: Accept, one: Buffer, other: Buffer): boolean {
  const [a, b] = [listingIn(accept, one), listingIn(accept, other)]
  if (a === undefined || b === undefined || a.length === b.length) return false
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a]
  if (shorter.length === 0) return false
  // In BCS a page is sorted by name after it was cut.
  const all = new Set(longer)
  return shorter.every((item, at) => accept === 'json' ? item === longer[at] : all.has(item))
}

function listingIn (accept: Accept, body: Buffer): string[] | undefined {
  return accept === 'bcs' ? modulesInBcs(body) : itemsIn(body)?.map(item => textOf(body, item))
}

function hasSameTransactions (one: Buffer, other: Buffer): boolean {
  const [a, b] = [membersIn(one), membersIn(other)]
  const [ofA, ofB] = [a?.get('transactions'), b?.get('transactions')]
  if (a === undefined || b === undefined || ofA === undefined || ofB === undefined) return false
  const isSame = [...a].every(([name, span]) => name === 'transactions' || textOf(one, span) === textOf(other, b.get(name)))
  return isSame && haveSame(committed, one, itemsIn(one, ofA), other, itemsIn(other, ofB))
}

function haveSame (names: readonly string[], one: Buffer, a: Span[] | undefined, other: Buffer, b: Span[] | undefined): boolean {
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every((item, at) => {
    const [ofA, ofB] = [membersIn(one, item), membersIn(other, b[at])]
    return ofA !== undefined && ofB !== undefined && names.every(name => textOf(one, ofA.get(name)) === textOf(other, ofB.get(name)))
  })
}

function textOf (body: Buffer, span: Span | undefined): string {
  return span === undefined ? '' : body.toString('latin1', span.from, span.to)
}
