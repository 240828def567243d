import { type Fault } from './fault.js'
import { Ledger } from './ledger.js'
import { type LedgerSnapshot } from './request-context.js'

/** Source of the snapshots that a fault makes the node serve from. */
export type LedgerSnapshotSource = () => LedgerSnapshot

const dayUsec = 86_400_000_000n

/** Returns the snapshot of a node at the head. */
export function headSnapshot (ledger: Ledger): LedgerSnapshot {
  return { ledger, position: ledger.position() }
}

/** Returns the snapshots that a fault serves; undefined if the fault leaves the node at the head. */
export function faultSnapshotOf (fault: Fault, ledger: Ledger): LedgerSnapshotSource | undefined {
  switch (fault.kind) {
    case 'lag':
      return () => snapshotAt(ledger, laggingHeight(ledger, fault.blocks ?? 0, BigInt(fault.versions ?? 0)))
    case 'fallBack': {
      const height = ledger.height - fault.blocks
      return () => snapshotAt(ledger, height)
    }
    case 'otherChain': {
      const other = otherLedger(ledger, fault.chainId ?? ledger.chainId, fault.blocks ?? Math.ceil(ledger.height / 2))
      return () => headSnapshot(other)
    }
    default:
      return undefined
  }
}

function snapshotAt (ledger: Ledger, height: number): LedgerSnapshot {
  return { ledger, position: ledger.position(Math.max(0, height)) }
}

function laggingHeight (ledger: Ledger, blocks: number, versions: bigint): number {
  const { lastVersion } = ledger.block(Math.max(0, ledger.height - blocks))
  const version = lastVersion - versions
  if (version <= ledger.startVersion) return 0
  const { height, lastVersion: end } = ledger.blockOf(version)
  // A head is always the end of a block.
  return Number(height) - (end > version ? 1 : 0)
}

// Starts one day after the head, so that a lower version has a later timestamp.
function otherLedger (ledger: Ledger, chainId: number, blocks: number): Ledger {
  const { blockTransactions, head: { timestampUsec } } = ledger
  return new Ledger({
    seed: ledger.seed + 1_000_003,
    chainId,
    blocks,
    prunedBlocks: 0,
    windowBlocks: ledger.windowBlocks,
    startVersion: ledger.startVersion,
    release: ledger.release,
    realLeaves: ledger.realLeaves,
    blockMs: ledger.blockMs,
    startUsec: timestampUsec + dayUsec,
    ...blockTransactions !== undefined && { blockTransactions }
  })
}
