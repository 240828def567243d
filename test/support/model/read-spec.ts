/** A read, whatever its request variant. */
export type ReadSpec =
  & { readonly form: 'json' | 'bcs' }
  & (
    | {
      readonly kind: 'table',
      readonly handle: string,
      readonly keyType: string,
      /** Equivalent texts of the key. */
      readonly keys: readonly string[],
      readonly valueType: string,
      readonly version: bigint | undefined
    }
    | {
      readonly kind: 'modules',
      readonly account: string,
      readonly limit: number | undefined,
      readonly cursor: string | undefined,
      readonly version: bigint | undefined
    }
    | { readonly kind: 'block', readonly version: bigint, readonly transactions: 'true' | 'false' | undefined }
    | {
      readonly kind: 'events',
      readonly stream: StreamName,
      readonly start: number | undefined,
      readonly limit: number | undefined
    }
    /** A read of an account or a view call by its index in a list below. */
    | { readonly kind: 'state', readonly account: string, readonly of: number, readonly version: bigint | undefined }
    | { readonly kind: 'view', readonly of: number, readonly version: bigint | undefined }
    /** The value of a state key by its index in a list below; such values exist in BCS alone. */
    | { readonly kind: 'value', readonly of: number, readonly version: bigint | undefined }
    | { readonly kind: 'height', readonly height: bigint, readonly transactions: 'true' | 'false' | undefined }
    | { readonly kind: 'transaction', readonly version: bigint, readonly hash: string | undefined }
    | { readonly kind: 'list', readonly start: bigint | undefined, readonly limit: number | undefined }
    /** Any other target. */
    | { readonly kind: 'path', readonly target: string }
  )

/** Kind of a read. */
export type ReadKind = ReadSpec['kind']

/** Event stream of the embedded node; the last two do not exist. */
export type StreamName = 'blocks' | 'epochs' | 'deposits' | 'nothing' | 'wrong type' | 'wrong field'

/** Account, handle and field of each event stream. */
export const streams: Readonly<Record<StreamName, readonly [account: string, handle: string, field: string]>> = {
  blocks: ['1', '0x1::block::BlockResource', 'new_block_events'],
  epochs: ['1', '0x1::reconfiguration::Configuration', 'events'],
  deposits: ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'deposit_events'],
  nothing: ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'withdraw_events'],
  'wrong type': ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::aptosCoin>', 'deposit_events'],
  'wrong field': ['1', '0x1::block::BlockResource', 'height']
}

/** A table key: its type, and its equivalent texts. */
export interface TableKey {
  readonly type: string
  readonly texts: readonly string[]
}

/** Table keys that can be read; a cache must not confuse them. */
export const tableKeys: readonly [TableKey, ...TableKey[]] = [
  { type: 'u64', texts: ['"7"', '"007"', '"+7"', '"\\u0037"'] },
  { type: 'u64', texts: ['"99"', '"0099"'] },
  { type: 'u64', texts: ['"115"', '"0115"', '"+115"'] },
  { type: 'u64', texts: ['"18446744073709551615"', '"018446744073709551615"'] },
  { type: 'u64', texts: ['"18446744073709551614"'] },
  { type: 'u64', texts: ['"9007199254740993"', '"+9007199254740993"'] },
  { type: 'u64', texts: ['"9007199254740992"'] },
  { type: 'u128', texts: ['"7"', '"07"'] },
  { type: 'u8', texts: ['3'] },
  { type: 'u8', texts: ['7'] },
  { type: 'u32', texts: ['7'] },
  { type: 'bool', texts: ['true'] },
  { type: 'address', texts: ['"0xcafe"', '"cafe"', '"0x0CAFE"', '"0xCAFE"'] },
  { type: 'address', texts: ['"0x1"', '"01"', '"1"'] },
  { type: 'vector<u8>', texts: ['"0xab"', '"AB"', '"0xAB"', '"ab"'] },
  { type: 'vector<u64>', texts: ['["1","2"]', '[ "01" , "2" ]', '["+1","002"]'] },
  { type: '0x1::string::String', texts: ['"alice"', '"\\u0061lice"', '"al\\u0069ce"'] },
  { type: '0x1::string::String', texts: ['"Alice"'] },
  { type: '0x1::string::String', texts: ['"nobody"', '"nob\\u006fdy"'] },
  { type: '0x1::string::String', texts: ['"7"'] },
  {
    type: '0x42::game::Cell',
    texts: [
      '{"x":"1","y":"2","owner":"0x1"}',
      '{ "owner" : "1", "y":"02", "x":"1" }',
      '{"x":"1","y":"2","owner":"0x1","more":1}'
    ]
  },
  {
    type: '0x42::game::Cell',
    texts: ['{"x":"2","y":"1","owner":"0x1"}', '{"y":"1","x":"2","owner":"0x1"}']
  },
  { type: '0x1::object::Object<0x42::game::Cell>', texts: ['"0x1"', '"1"', '"0x01"'] }
]

/** A key whose number is no text, which some nodes reject. */
export const wrongKey: TableKey = { type: '0x42::game::Cell', texts: ['{"x":1,"y":"2","owner":"0x1"}'] }

/** Types of values; the last two do not exist. */
export const valueTypes = [
  'u64',
  'u8',
  'u128',
  'bool',
  'address',
  'vector<u8>',
  '0x1::string::String',
  '0x42::game::Cell',
  '0x42::game::Line<u8>',
  '0x42::game::Line<u64>',
  'vector<0x42::shop::Item>',
  '0x1::option::Option<u64>',
  '0x42::game::cell',
  'u512'
] as const

/** Reads of an account at a version besides its modules; the last segment is percent-encoded. */
export const states: ReadonlyArray<readonly [what: string, last?: string]> = [
  [''],
  ['/resources'],
  ['/resource', '0x1::account::Account'],
  ['/resource', '0x1::block::BlockResource'],
  ['/resource', '0x42::game::Line<u8>'],
  ['/resource', '0x42::game::Line<vector<u8>>'],
  ['/resource', '0x42::game::line<u8>'],
  ['/module', 'game'],
  ['/module', 'Game'],
  ['/balance', '0x1::aptos_coin::AptosCoin'],
  ['/balance', '0xa'],
  ['/resource', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>']
]

const latest = (account: string, of: number): ReadSpec => ({
  kind: 'state',
  form: 'json',
  account,
  of,
  version: undefined
})

/** A latest read that each block changes, and others that some blocks change. */
export const blockRead = latest('1', 3)
export const depositReads = [latest('cafe', 9), latest('cafe', 11)] as const

/** View calls: members of their bodies. */
export const views: ReadonlyArray<readonly [function_: string, types: readonly string[], args: readonly string[]]> = [
  ['0xfeed::oracle::height', [], []],
  ['0xfeed::oracle::balance_of', [], ['"0xcafe"']],
  ['0xfeed::oracle::balance_of', [], ['"0xCAFE"']],
  ['0xfeed::oracle::at_most_a_hundred', [], ['"7"']],
  ['0xfeed::oracle::at_most_a_hundred', [], ['"700"']],
  ['0xfeed::oracle::echo', ['u64'], ['"7"']],
  ['0xfeed::oracle::echo', ['u128'], ['"7"']],
  ['0x1::coin::balance', ['0x1::aptos_coin::AptosCoin'], ['"0xcafe"']],
  ['0xfeed::oracle::nothing', [], []]
]

/** State keys in hex: a resource, items that exist or do not, and bytes that are no key. */
export const stateKeys: readonly string[] = [
  `00${'1'.padStart(64, '0')}3601${'1'.padStart(64, '0')}05626c6f636b0d426c6f636b5265736f7572636500`,
  `01${'5eed'.padStart(64, '0')}080700000000000000`,
  `01${'5eed'.padStart(64, '0')}080700000000000001`,
  `01${'5eed'.padStart(64, '0')}01ff`,
  '0202abcd',
  '0202abcd00'
]
