/** Where a node says it stands, all from one moment. */
export interface Position {
  readonly chainId: number
  readonly version: bigint
  readonly oldestVersion: bigint
  readonly timestampUsec: bigint
  readonly epoch: bigint
  readonly blockHeight: bigint
  readonly oldestBlockHeight: bigint
}

/** The seven headers that state a position, in the order of the wire. */
export function positionHeaders (position: Position, family: string): Array<[string, string]> {
  return [
    [`${family}chain-id`, String(position.chainId)],
    [`${family}ledger-version`, String(position.version)],
    [`${family}ledger-oldest-version`, String(position.oldestVersion)],
    [`${family}ledger-timestampusec`, String(position.timestampUsec)],
    [`${family}epoch`, String(position.epoch)],
    [`${family}block-height`, String(position.blockHeight)],
    [`${family}oldest-block-height`, String(position.oldestBlockHeight)]
  ]
}
