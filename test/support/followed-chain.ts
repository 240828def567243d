import { type ResponsePosition } from '../../src/api/position.js'
import { type KnownTransaction } from '../../src/follow/ledger-knowledge.js'

/** Returns the stamped position of a version, whose time rises with it. */
export function stampedAt (version: number | bigint, chainId = 4): ResponsePosition {
  const head = BigInt(version)
  return {
    family: 'x-aptos-',
    position: {
      chainId,
      head: { version: head, timestampUsec: 1_000_000n + head * 10n, epoch: 1n, blockHeight: head },
      oldest: { version: 0n, blockHeight: 0n }
    }
  }
}

/** Returns a transaction that touches some keys. */
export function transactionAt (
  version: number | bigint,
  touched: readonly bigint[] = [],
  touchesAll?: KnownTransaction['touchesAll']
): KnownTransaction {
  return { version: BigInt(version), root: `root ${version}`, touched, touchesAll }
}
