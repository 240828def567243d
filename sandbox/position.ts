/** Position of a node; all members come from one snapshot. */
export interface Position {
  readonly chainId: number
  readonly version: bigint
  readonly oldestVersion: bigint
  readonly timestampUsec: bigint
  readonly epoch: bigint
  readonly blockHeight: bigint
  readonly oldestBlockHeight: bigint
  /** Key of the epoch with which clients encrypt transactions. */
  readonly encryptionKey: string
}

/** Returns the seven position headers in the order in which nodes send them, and the key of the epoch. */
export function positionHeaders (position: Position, family: string): Array<[string, string]> {
  return [
    [`${family}chain-id`, String(position.chainId)],
    [`${family}ledger-version`, String(position.version)],
    [`${family}ledger-oldest-version`, String(position.oldestVersion)],
    [`${family}ledger-timestampusec`, String(position.timestampUsec)],
    [`${family}epoch`, String(position.epoch)],
    [`${family}block-height`, String(position.blockHeight)],
    [`${family}oldest-block-height`, String(position.oldestBlockHeight)],
    [`${family}txn-encryption-key`, position.encryptionKey]
  ]
}
