/** Target of the index, which names position and release; every other target continues its path. */
export const indexTarget = '/v1'

/** Kinds of reads that an operator can switch off, with the cheapest read of each kind. */
export const optionalReads = [
  {
    name: 'BCS',
    method: 'GET',
    target: '/v1/accounts/0x1',
    accept: 'application/x-bcs',
    type: undefined,
    body: undefined
  },
  {
    name: 'views',
    method: 'POST',
    target: '/v1/view',
    accept: 'application/json',
    type: 'application/json',
    body: '{"function":"0x1::timestamp::now_microseconds","type_arguments":[],"arguments":[]}'
  }
] as const

/** Target of the gas estimate, the cheapest read beside the index. */
export const gasEstimateTarget = '/v1/estimate_gas_price'

/** Target of the node's description of itself. */
export const infoTarget = '/v1/info'

/** Returns the target of a small read at a version, for people to try. */
export function exampleTargetAt (version: string): string {
  return `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`
}

/** Returns another text of the same read. */
export function otherExampleTargetAt (version: string): string {
  return `/v1/accounts/0000001/modules?limit=01&ledger_version=${version}`
}

/** Returns the target of the block at a height, or of the block that contains a version. */
export function blockTarget (by: 'height' | 'version', at: bigint): string {
  return `/v1/blocks/by_${by}/${at}`
}

/** Returns the target of the transaction of a version. */
export function transactionByVersionTarget (version: bigint): string {
  return `/v1/transactions/by_version/${version}`
}

/** Returns the target of a list of transactions, from a version on or the newest. */
export function transactionsTarget (start: bigint | undefined, limit: number): string {
  return `/v1/transactions?${start === undefined ? '' : `start=${start}&`}limit=${limit}`
}

/** Returns the path of a stream of events, equal to the path of a read by creation number. */
export function streamPathOf (address: string, creation: bigint | string): string {
  return `/v1/accounts/${address}/events/${creation}`
}

/** Returns the path of the transactions that an account sent. */
export function sendsPathOf (address: string): string {
  return `/v1/accounts/${address}/transactions`
}
