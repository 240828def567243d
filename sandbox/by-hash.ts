import { type Ledger } from './ledger.js'
import { type View } from './question.js'
import { type PendingTransaction } from './schema/transaction-user.js'
import { transactionHash, waitingTransactions } from './transactions.js'

/** What a node knows of a hash: the version that the transaction has, or the transaction while it waits. */
export function foundByHash ({ ledger, position }: View, hash: string): bigint | PendingTransaction | undefined {
  const version = versionOf(ledger, hash, position.oldestVersion)
  if (version === undefined || version > position.version) {
    return waitingTransactions(ledger, position.blockHeight).find(waiting => waiting.hash === hash)
  }
  return version < position.oldestVersion ? undefined : version
}

// Only what is not pruned can be found, and every version is looked at once.
function versionOf (ledger: Ledger, hash: string, oldest: bigint): bigint | undefined {
  const { byHash, head } = ledger
  if (byHash.next < oldest) byHash.next = oldest
  for (; byHash.next <= head.version; byHash.next++) {
    byHash.versions.set(transactionHash(ledger, byHash.next), byHash.next)
  }
  return byHash.versions.get(hash)
}
