import { stamps } from '../stub-upstream.js'

/** A true response, in the pieces that a false one is made from. */
export interface TrueResponse {
  /** Number that distinguishes this read from all others of its kind. */
  readonly nth: number
  readonly target: string
  readonly type: string
  readonly positionHeaders: Readonly<Record<string, string>>
  readonly body: string
}

/** A kind of read, with a different read for every number. */
export interface ReadKind {
  readonly name: string
  /** Endpoint label in metrics. */
  readonly endpoint: string
  readonly isStored: boolean
  readonly isForwarded: boolean
  /** Code of a not-found that is cached like a value. */
  readonly notFound: string | undefined
  request(nth: number): string
  trueResponse(nth: number): TrueResponse
}

/** Head of the truthful upstream, far above all reads. */
export const headPosition = stamps({
  'x-aptos-ledger-version': '1000000',
  'x-aptos-block-height': '100000',
  'x-aptos-ledger-timestampusec': '5000000'
})

/** Block of a height, with ten versions. */
export function blockBody (height: number, change: Record<string, unknown> = {}): string {
  return JSON.stringify({
    block_height: String(height),
    block_hash: `0x${height.toString(16).padStart(64, '0')}`,
    block_timestamp: String(height),
    first_version: String(height * 10),
    last_version: String(height * 10 + 9),
    transactions: null,
    ...change
  })
}

/** An event of a stream. */
export function eventOf (sequence: number | string, change: Record<string, unknown> = {}): object {
  return {
    version: '500',
    guid: { creation_number: '2', account_address: '0x1' },
    sequence_number: String(sequence),
    type: '0x1::a::B',
    data: { sequence_number: '7' },
    ...change
  }
}

/** A page of events under a handle of a numbered account: each has its own stream, so none serves another's read. */
export function pageBody (events: readonly object[], nth: number): string {
  return eventsOfAccount(JSON.stringify(events), nth)
}

/** Rewrites events to belong to a numbered account. */
export const eventsOfAccount = (text: string, nth: number): string =>
  text.replaceAll('"account_address":"0x1"', `"account_address":"0x${nth.toString(16)}"`)

/** A committed transaction of a number, which gives its version and hash. */
export function transactionBody (nth: number, change: Record<string, unknown> = {}): string {
  return JSON.stringify({
    type: 'user_transaction',
    version: String(versionOf(nth)),
    hash: hex(nth),
    success: true,
    accumulator_root_hash: hex(nth),
    payload: { version: '7', hash: hex(7) },
    ...change
  })
}

/** Version for a number, far below the head. */
export const versionOf = (nth: number): number => nth * 10 + 3

/** Address as varve writes it upstream. */
export const hex = (nth: number): string => `0x${nth.toString(16).padStart(64, '0')}`

const tag = '0x1%3A%3Aa%3A%3AA'
const bcs = 'application/x-bcs'

const viewOf = (nth: number): string => `{"function":"0x1::a::f","type_arguments":[],"arguments":["${nth}"]}`

interface Row {
  readonly name: string
  readonly endpoint: string
  readonly isStored?: boolean
  readonly notFound?: string
  readonly accept?: string
  target(nth: number): string
  posted?(nth: number): string
  body(nth: number): string
}

const rows: readonly Row[] = [
  {
    name: 'table item',
    endpoint: 'table_item',
    isStored: true,
    notFound: 'table_item_not_found',
    target: nth => `/v1/tables/${hex(nth)}/item?ledger_version=5000`,
    posted: nth => `{"key_type":"u64","value_type":"u64","key":"${nth}"}`,
    body: nth => `"item ${nth}"`
  },
  {
    name: 'modules',
    endpoint: 'account_modules',
    isStored: true,
    target: nth => `/v1/accounts/${hex(nth)}/modules?ledger_version=5000`,
    body: nth => `[{"bytecode":"0x${nth}"}]`
  },
  {
    name: 'modules in BCS',
    endpoint: 'account_modules',
    isStored: true,
    accept: bcs,
    target: nth => `/v1/accounts/${hex(nth)}/modules?ledger_version=6000`,
    body: nth => `bcs ${nth}`
  },
  {
    name: 'latest modules',
    endpoint: 'account_modules',
    target: nth => `/v1/accounts/${hex(nth)}/modules?limit=7`,
    body: nth => `[{"latest":"0x${nth}"}]`
  },
  {
    name: 'raw item',
    endpoint: 'raw_table_item',
    isStored: true,
    notFound: 'table_item_not_found',
    accept: bcs,
    target: nth => `/v1/tables/${hex(nth)}/raw_item?ledger_version=5000`,
    posted: nth => `{"key":"0x${nth.toString(16).padStart(8, '0')}"}`,
    body: nth => `raw ${nth}`
  },
  {
    name: 'resource',
    endpoint: 'account_resource',
    isStored: true,
    notFound: 'resource_not_found',
    target: nth => `/v1/accounts/${hex(nth)}/resource/${tag}?ledger_version=5000`,
    body: nth => `{"type":"0x1::a::A","data":{"x":"${nth}"}}`
  },
  {
    name: 'module',
    endpoint: 'account_module',
    isStored: true,
    notFound: 'module_not_found',
    target: nth => `/v1/accounts/${hex(nth)}/module/a?ledger_version=5000`,
    body: nth => `{"bytecode":"0x${nth}","abi":null}`
  },
  {
    name: 'balance',
    endpoint: 'account_balance',
    isStored: true,
    target: nth => `/v1/accounts/${hex(nth)}/balance/${tag}?ledger_version=5000`,
    body: nth => `1844674407370955${String(nth).padStart(4, '0')}`
  },
  {
    name: 'view',
    endpoint: 'view',
    isStored: true,
    target: nth => `/v1/view?ledger_version=${5000 + nth}`,
    posted: nth => viewOf(nth),
    body: nth => `["${nth}"]`
  },
  {
    name: 'latest view',
    endpoint: 'view',
    target: () => '/v1/view',
    posted: nth => viewOf(nth),
    body: nth => `["latest ${nth}"]`
  },
  {
    name: 'block',
    endpoint: 'block_by_version',
    isStored: true,
    target: nth => `/v1/blocks/by_version/${versionOf(nth)}`,
    body: nth => blockBody(nth)
  },
  {
    name: 'block of a height',
    endpoint: 'block_by_height',
    isStored: true,
    target: nth => `/v1/blocks/by_height/${nth}`,
    body: nth => blockBody(nth)
  },
  {
    name: 'transaction',
    endpoint: 'transaction_by_version',
    isStored: true,
    target: nth => `/v1/transactions/by_version/${versionOf(nth)}`,
    body: nth => transactionBody(nth)
  },
  {
    name: 'transaction of a hash',
    endpoint: 'transaction_by_hash',
    isStored: true,
    target: nth => `/v1/transactions/by_hash/${hex(nth)}`,
    body: nth => transactionBody(nth)
  },
  {
    name: 'transactions',
    endpoint: 'transactions',
    isStored: true,
    target: nth => `/v1/transactions?start=${versionOf(nth)}&limit=2`,
    body: nth => `[${transactionBody(nth)},${transactionBody(nth, { version: String(versionOf(nth) + 1) })}]`
  },
  {
    name: 'events',
    endpoint: 'account_events',
    isStored: true,
    target: nth => `/v1/accounts/${hex(nth)}/events/${tag}/f?start=5&limit=2`,
    body: nth => pageBody([eventOf(5, { type: `0x1::a::B${nth}` }), eventOf(6)], nth)
  },
  { name: 'info', endpoint: 'info', target: () => '/v1/info', body: nth => `{"chain_id":"${nth}"}` },
  {
    name: 'gas',
    endpoint: 'estimate_gas_price',
    target: () => '/v1/estimate_gas_price',
    body: nth => `{"gas_estimate":${nth}}`
  },
  {
    name: 'passed read',
    endpoint: 'other',
    target: nth => `/v1/accounts/${hex(nth)}/transactions`,
    body: nth => `[{"passed":${nth}}]`
  },
  {
    name: 'passed request',
    endpoint: 'other',
    target: () => '/v1/transactions/simulate',
    posted: nth => `{"sender":"0x${nth}"}`,
    body: nth => `[${nth}]`
  }
]

/** Every kind of read that a client may send. */
export const readKinds: readonly ReadKind[] = rows.map((
  { name, endpoint, isStored = false, notFound, accept = 'application/json', target, posted, body }
) => ({
  name,
  endpoint,
  isStored,
  isForwarded: endpoint === 'other',
  notFound,
  request: nth => {
    const sent = posted?.(nth)
    const lines = [
      'host: varve',
      `accept: ${accept}`,
      ...(sent === undefined ? [] : ['content-type: application/json', `content-length: ${sent.length}`])
    ]
    return `${sent === undefined ? 'GET' : 'POST'} ${target(nth)} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${
      sent ?? ''
    }`
  },
  trueResponse: nth => ({
    nth,
    target: target(nth),
    type: accept === 'application/json' ? 'application/json; charset=utf-8' : accept,
    positionHeaders: headPosition,
    body: body(nth)
  })
}))

/** Returns a kind of read by its name. */
export function readKindOf (name: string): ReadKind {
  const kind = readKinds.find(kind => kind.name === name)
  if (kind === undefined) throw new Error(`no kind of read is called ${name}`)
  return kind
}
