import { lagBlocks, type Ledger } from './ledger.js'
import { type LedgerSnapshot } from './request-context.js'
import { type PendingTransaction } from './schema/transaction-user.js'
import { transactionHash, pendingTransactions } from './transactions.js'

/** Finds a transaction by hash: the version of a committed one, or the pending one; undefined if unknown or pruned. */
export function findTransactionByHash (
  { ledger, position }: LedgerSnapshot,
  hash: string
): bigint | PendingTransaction | undefined {
  const version = findVersion(ledger, hash, position.oldestVersion)
  if (version === undefined || version > position.version) {
    return pendingTransactions(ledger, position.blockHeight).find(pending => pending.hash === hash)
  }
  return version < position.oldestVersion ? undefined : version
}

// Indexes each version that is not pruned once; the next look-up continues from there.
function findVersion (ledger: Ledger, hash: string, oldest: bigint): bigint | undefined {
  const { versionsByHash, head } = ledger
  const dropped = ledger.block(Math.max(0, ledger.height - ledger.windowBlocks - lagBlocks)).firstVersion
  for (const [earliest, version] of versionsByHash.versions) {
    if (version >= dropped) break
    versionsByHash.versions.delete(earliest)
  }
  if (versionsByHash.next < oldest) versionsByHash.next = oldest
  for (; versionsByHash.next <= head.version; versionsByHash.next++) {
    versionsByHash.versions.set(transactionHash(ledger, versionsByHash.next), versionsByHash.next)
  }
  return versionsByHash.versions.get(hash)
}
