import { Ledger } from './ledger.js'
import { Problem } from './problem.js'
import { type CommittedTransaction } from './schema/transaction.js'
import { type SettledWrite } from './kinds/write-set-changes.js'
import { transactionBytes, transactionRecord } from './transactions.js'

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
): Array<string | Buffer> {
  const middle = versions[Math.floor(versions.length / 2)]
  const at = fault?.version === undefined ? middle : BigInt(fault.version)
  const items = versions.map(version => ({ ledger, version }))
  const lie = fault !== undefined && at !== undefined ? fault.lie : undefined
  return changedPage(items, lie, at ?? 0n).map(item => {
    const applied = item.version === at || lie === 'noWriteSets' ? lie : undefined
    return format === 'json'
      ? JSON.stringify(changedRecord(recordOf(item), applied))
      : transactionBytes(item.ledger, item.version, writes => changedWrites(writes, applied))
  })
}

function recordOf ({ ledger, version }: PageItem): CommittedTransaction {
  return transactionRecord(ledger, ledger.blockOf(version), version)
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
  switch (lie) {
    case 'noWriteSets':
      return { ...record, changes: [] }
    case 'droppedChange':
      return { ...record, changes: rest }
    case 'unknownChange':
      // No change of the document has this type.
      return change === undefined
        ? record
        : { ...record, changes: [{ ...change, type: 'write_unknown' as 'write_resource' } as typeof change, ...rest] }
    default:
      return record
  }
}

function changedWrites (writes: readonly SettledWrite[], lie: TailLie | undefined): readonly SettledWrite[] {
  if (lie === 'noWriteSets') return []
  return lie === 'droppedChange' ? writes.slice(1) : writes
}

// A chain of the same name with other transactions, as long as this one.
function forkOf (ledger: Ledger): Ledger {
  const { chainId, startVersion, windowBlocks, release, seed, blockTransactions, realLeaves, blockMs } = ledger
  const fork = ledger.fork ?? new Ledger({
    seed: seed + otherSeed,
    chainId,
    startVersion,
    windowBlocks,
    release,
    realLeaves,
    blockMs,
    blocks: ledger.height,
    prunedBlocks: 0,
    ...blockTransactions !== undefined && { blockTransactions }
  })
  ledger.fork = fork
  fork.release = ledger.release
  while (fork.head.version < ledger.head.version) fork.grow()
  return fork
}
