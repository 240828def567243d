import { lengthBytes } from './bcs.js'
import { type Ledger } from './ledger.js'
import { Problem } from './problem.js'
import { type CommittedTransaction } from './records.js'
import { type SettledWrite, writeSetBytes } from './kinds/render-write-set.js'
import { printTransaction, transactionBytes, transactionRecord } from './transactions.js'

/** Ways in which a page of transactions can be wrong. */
export type TailLie =
  | 'skipped'
  | 'repeated'
  | 'reordered'
  | 'shortened'
  | 'failing'
  | 'droppedChange'
  | 'unknownChange'
  | 'noWriteSets'
  | 'otherChain'

/** Makes pages of transactions wrong at one version, by default at the middle of each page. */
export interface TailFault {
  readonly kind: 'tail'
  readonly lie: TailLie
  /** As text beyond the precision of a double. */
  readonly version?: number | bigint | string
}

interface PageItem {
  readonly ledger: Ledger
  readonly version: bigint
}

const otherSeed = 7_919

/** Prints or encodes the transactions of a page; a fault makes it wrong. */
export function pageItems (
  ledger: Ledger,
  versions: readonly bigint[],
  format: 'json' | 'bcs',
  fault?: TailFault
): Buffer[] {
  const middle = versions[Math.floor(versions.length / 2)]
  const at = fault?.version === undefined ? middle : BigInt(fault.version)
  const items = versions.map(version => ({ ledger, version }))
  const lie = fault !== undefined && at !== undefined ? fault.lie : undefined
  return changedPage(items, lie, at ?? 0n).map(item => {
    const applied = item.version === at || lie === 'noWriteSets' ? lie : undefined
    return format === 'json' ? jsonOf(item, applied) : bytesOf(item, applied)
  })
}

function jsonOf ({ ledger, version }: PageItem, lie: TailLie | undefined): Buffer {
  const block = ledger.blockOf(version)
  return lie === undefined
    ? printTransaction(ledger, block, version)
    : Buffer.from(JSON.stringify(changedRecord(transactionRecord(ledger, block, version), lie)))
}

function bytesOf ({ ledger, version }: PageItem, lie: TailLie | undefined): Buffer {
  return transactionBytes(ledger, version, writes => changedWriteSet(writes, lie))
}

function changedPage (items: readonly PageItem[], lie: TailLie | undefined, at: bigint): readonly PageItem[] {
  const index = items.findIndex(({ version }) => version === at)
  const [item, next] = items.slice(index)
  switch (lie) {
    case 'skipped':
      return items.filter(({ version }) => version !== at)
    case 'repeated':
      return items.flatMap(each => each.version === at ? [each, each] : [each])
    case 'reordered':
      return item === undefined || next === undefined || index < 0 ? items : items.toSpliced(index, 2, next, item)
    case 'shortened':
      return items.filter(({ version }) => version < at)
    case 'failing':
      if (index < 0) return items
      throw new Problem('ledger', 'internal_error', `Failed to convert the transaction at ${at}`)
    case 'otherChain':
      return items.map(each => each.version < at ? each : { ...each, ledger: forkOf(each.ledger) })
    default:
      return items
  }
}

function changedRecord (record: CommittedTransaction, lie: TailLie | undefined): CommittedTransaction {
  const [change, ...rest] = record.changes
  const key = change?.state_key_hash
  switch (lie) {
    case 'noWriteSets':
      return { ...record, changes: [] }
    case 'droppedChange':
      // Nodes that cannot render one member of a group drop all of them.
      return { ...record, changes: rest.filter(({ state_key_hash: hash }) => hash !== key) }
    case 'unknownChange':
      // No change of the document has this type.
      return change === undefined
        ? record
        : { ...record, changes: [{ ...change, type: 'write_unknown' as 'write_resource' } as typeof change, ...rest] }
    default:
      return record
  }
}

function changedWriteSet (writes: readonly SettledWrite[], lie: TailLie | undefined): Buffer {
  if (lie === 'noWriteSets') return writeSetBytes([])
  if (lie === 'droppedChange') return writeSetBytes(writes.slice(1))
  const [first] = writes
  const bytes = writeSetBytes(writes)
  // Operations of the published layout end at 5.
  if (lie === 'unknownChange' && first) bytes[1 + lengthBytes(writes.length).length + first.key.length] = 6
  return bytes
}

// A chain of the same name with other transactions, as long as this one.
function forkOf (ledger: Ledger): Ledger {
  const fork = ledger.fork ?? ledger.sibling({ seed: ledger.seed + otherSeed, blocks: ledger.height })
  ledger.fork = fork
  fork.release = ledger.release
  while (fork.head.version < ledger.head.version) fork.grow()
  return fork
}
