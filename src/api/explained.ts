import { itemsIn, membersIn, type Span } from './json-scan.js'
import { differInShapeAlone, textOf } from './json-shape.js'
import { modulesInBcs } from './modules-bcs.js'
import { type Read } from './read.js'
import { resourcesInBcs } from './resources-bcs.js'

/** What a node said to a read, at some time. */
export interface Said {
  readonly body: Buffer
  /** The release that rendered it, as far as that was known; undefined where it was not. */
  readonly release: string | undefined
  /** Where the next page begins; undefined where there is none. */
  readonly cursor: string | undefined
}

// Members that no release and no setting of a node changes (docs/node-behaviour.md, "Transactions").
const committed = [
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
// Of an event only the payload is decoded, of a module only the ABI.
const numbered = ['version', 'guid', 'sequence_number', 'type']
const stored = ['bytecode']
const typed = ['type']

/**
 * True if both bodies can be right for the same history: releases, page limits and the modules at the head change how
 * it is rendered (docs/node-behaviour.md, "Rendering").
 */
export function isExplained (read: Read, one: Said, other: Said): boolean {
  const { accept, endpoint: { name, keyedBy, takesCursor } } = read
  if (accept === 'bcs') {
    return takesCursor && isLongerInBcs(name === 'account_modules' ? modulesInBcs : resourcesInBcs, one, other)
  }
  if (takesCursor) return isSameListing(name === 'account_modules' ? stored : typed, one, other)
  if (name === 'account_module') return haveSame(stored, one, whole(one), other, whole(other))
  switch (keyedBy) {
    case 'block':
    case 'height':
      return hasSameTransactions(one, other)
    case 'list':
      return isSameRun(one, other)
    case 'transaction':
    case 'hash':
      return haveSame(committed, one, whole(one), other, whole(other))
    case 'page':
      return haveSame(numbered, one, itemsIn(one.body), other, itemsIn(other.body))
    case 'version':
    case 'moment':
      return mayBeRenderedOtherwise(one, other)
  }
}

function mayBeRenderedOtherwise (one: Said, other: Said): boolean {
  return one.release === undefined || one.release !== other.release
}

function whole ({ body }: Said): Span[] {
  return [{ from: 0, to: body.length }]
}

// A listing that an operator lets be longer goes on where another ends, and says where that is.
function isSameListing (names: readonly string[], one: Said, other: Said): boolean {
  const [a, b] = [itemsIn(one.body), itemsIn(other.body)]
  if (a === undefined || b === undefined) return false
  const count = Math.min(a.length, b.length)
  return mayBeCut(one, a, other, b) && haveSame(names, one, a.slice(0, count), other, b.slice(0, count))
}

// A list of transactions that an operator lets be longer goes on where another ends, which its versions tell.
function isSameRun (one: Said, other: Said): boolean {
  const [a, b] = [itemsIn(one.body), itemsIn(other.body)]
  if (a === undefined || b === undefined) return false
  const count = Math.min(a.length, b.length)
  return count > 0 && haveSame(committed, one, a.slice(0, count), other, b.slice(0, count))
}

function isLongerInBcs (itemsInBcs: (body: Buffer) => string[] | undefined, one: Said, other: Said): boolean {
  const [a, b] = [itemsInBcs(one.body), itemsInBcs(other.body)]
  if (a === undefined || b === undefined || a.length === b.length || !mayBeCut(one, a, other, b)) return false
  // A page is sorted by name after it was cut.
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a]
  const all = new Set(longer)
  return shorter.every(item => all.has(item))
}

function mayBeCut (one: Said, a: readonly unknown[], other: Said, b: readonly unknown[]): boolean {
  if (a.length === b.length) return true
  const [shorter, length] = a.length < b.length ? [one, a.length] : [other, b.length]
  return shorter.cursor !== undefined && length > 0
}

function hasSameTransactions (one: Said, other: Said): boolean {
  const [a, b] = [membersIn(one.body), membersIn(other.body)]
  const [ofA, ofB] = [a?.get('transactions'), b?.get('transactions')]
  if (a === undefined || b === undefined || ofA === undefined || ofB === undefined) return false
  const isSame = [...a].every(([name, span]) =>
    name === 'transactions' || textOf(one, span) === textOf(other, b.get(name))
  )
  return isSame && haveSame(committed, one, itemsIn(one.body, ofA), other, itemsIn(other.body, ofB))
}

/**
 * Whether all items are the same in these members, and in all others unless another release may have rendered them, or
 * they were decoded further.
 */
function haveSame (
  names: readonly string[],
  one: Said,
  a: Span[] | undefined,
  other: Said,
  b: Span[] | undefined
): boolean {
  if (a === undefined || b === undefined || a.length !== b.length) return false
  return a.every((item, at) => {
    const its = b[at]
    if (its === undefined || textOf(one, item) === textOf(other, its)) return true
    const [ofA, ofB] = [membersIn(one.body, item), membersIn(other.body, its)]
    return ofA !== undefined && ofB !== undefined && names.every(name =>
      textOf(one, ofA.get(name)) === textOf(other, ofB.get(name))
    ) &&
      (mayBeRenderedOtherwise(one, other) ||
        differInShapeAlone({ body: one.body, span: item }, { body: other.body, span: its }))
  })
}
