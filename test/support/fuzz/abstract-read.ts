import fc from 'fast-check'
import { type Ledger } from '../../../sandbox/ledger.js'

/** A version relative to the ledger, resolved when a request is sent. */
export type VersionAt =
  | { readonly at: 'head' | 'oldest', readonly by: number }
  /** A number of blocks below the head, at the first or last version. */
  | { readonly at: 'first' | 'last', readonly back: number, readonly by: number }
  /** A percentage of the way from the oldest version to the head. */
  | { readonly at: 'share', readonly percent: number }
  /** A number of versions after the first one of the chain. */
  | { readonly at: 'start', readonly by: number }
  | { readonly at: 'number', readonly number: string }

/** A read, whatever its request variant. */
export type AbstractRead =
  | {
    readonly kind: 'table',
    readonly handle: string,
    readonly key: number,
    readonly value: number,
    readonly version: VersionAt | undefined
  }
  | {
    readonly kind: 'modules',
    readonly account: string,
    readonly version: VersionAt | undefined,
    readonly limit: number | undefined,
    readonly cursor: number | undefined
  }
  /** Starts at a distance from the end of the stream, or from its beginning. */
  | {
    readonly kind: 'events',
    readonly stream: number,
    readonly start: { readonly from: 'end' | 'begin', readonly by: number } | undefined,
    readonly limit: number | undefined
  }
  | { readonly kind: 'block', readonly version: VersionAt, readonly transactions: 'true' | 'false' | undefined }
  /** A listing without version: its first page, or a recent cursor, perhaps forged to carry another version. */
  | {
    readonly kind: 'listing',
    readonly account: string,
    readonly limit: number | undefined,
    readonly cursor: number | undefined,
    readonly forged: VersionAt | undefined
  }
  | { readonly kind: 'state', readonly account: string, readonly of: number, readonly version: VersionAt | undefined }
  | { readonly kind: 'view', readonly of: number, readonly version: VersionAt | undefined }
  | { readonly kind: 'height', readonly version: VersionAt, readonly transactions: 'true' | 'false' | undefined }
  | { readonly kind: 'transaction', readonly version: VersionAt, readonly isByHash: boolean }
  | { readonly kind: 'list', readonly start: VersionAt | undefined, readonly limit: number | undefined }
  | { readonly kind: 'path', readonly target: string }

/**
 * Table keys: a type, equivalent request variants of one key, and a table whose value for it changes with every other
 * version.
 */
export const tableKeys: ReadonlyArray<
  { readonly type: string, readonly spellings: readonly string[], readonly busy: string }
> = [
  { type: 'u64', spellings: ['"7"', '"007"', '"+7"', '"\\u0037"'], busy: '23' },
  { type: 'u64', spellings: ['"99"', '"0099"'], busy: '53' },
  { type: 'u64', spellings: ['"115"', '"0115"', '"+115"'], busy: 'e6' },
  { type: 'u64', spellings: ['"18446744073709551615"', '"018446744073709551615"'], busy: '4b2' },
  { type: 'u64', spellings: ['"18446744073709551614"'], busy: '33' },
  { type: 'u64', spellings: ['"9007199254740993"', '"+9007199254740993"'], busy: 'a1' },
  { type: 'u64', spellings: ['"9007199254740992"'], busy: '383' },
  { type: 'u128', spellings: ['"7"', '"07"'], busy: '219' },
  { type: 'u8', spellings: ['3'], busy: '331' },
  { type: 'u8', spellings: ['7'], busy: '1e' },
  { type: 'u32', spellings: ['7'], busy: '486' },
  { type: 'bool', spellings: ['true'], busy: '229' },
  { type: 'address', spellings: ['"0xcafe"', '"cafe"', '"0x0CAFE"', '"0xCAFE"'], busy: 'd' },
  { type: 'address', spellings: ['"0x1"', '"01"', '"1"'], busy: '3ec' },
  { type: 'vector<u8>', spellings: ['"0xab"', '"AB"', '"0xAB"', '"ab"'], busy: '6fd' },
  { type: 'vector<u64>', spellings: ['["1","2"]', '[ "01" , "2" ]', '["+1","002"]'], busy: '1b9' },
  { type: '0x1::string::String', spellings: ['"alice"', '"\\u0061lice"', '"al\\u0069ce"'], busy: 'ac' },
  { type: '0x1::string::String', spellings: ['"Alice"'], busy: 'ba' },
  { type: '0x1::string::String', spellings: ['"nobody"', '"nob\\u006fdy"'], busy: 'c' },
  { type: '0x1::string::String', spellings: ['"7"'], busy: '16f' },
  {
    type: '0x42::game::Cell',
    spellings: [
      '{"x":"1","y":"2","owner":"0x1"}',
      '{ "owner" : "1", "y":"02", "x":"1" }',
      '{"x":"1","y":"2","owner":"0x1","more":1}'
    ],
    busy: 'a2'
  },
  {
    type: '0x42::game::Cell',
    spellings: ['{"x":"2","y":"1","owner":"0x1"}', '{"y":"1","x":"2","owner":"0x1"}'],
    busy: '315'
  },
  { type: '0x1::object::Object<0x42::game::Cell>', spellings: ['"0x1"', '"1"', '"0x01"'], busy: '15c' },
  { type: '0x42::game::Cell', spellings: ['{"x":1,"y":"2","owner":"0x1"}'], busy: '5eed' }
]

/** Types of values. */
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
  ['/balance', '0xa']
]

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

/** Event streams: account, handle and field. */
export const streams = [
  ['1', '0x1::block::BlockResource', 'new_block_events'],
  ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'deposit_events'],
  ['1', '0x1::reconfiguration::Configuration', 'events'],
  ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::AptosCoin>', 'withdraw_events'],
  ['cafe', '0x1::coin::CoinStore<0x1::aptos_coin::aptosCoin>', 'deposit_events'],
  ['1', '0x1::block::BlockResource', 'height']
] as const

const near = fc.integer({ min: -3, max: 3 })
const version = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ at: fc.constantFrom('first' as const, 'last' as const), back: fc.nat(12), by: near })
  },
  { weight: 2, arbitrary: fc.record({ at: fc.constantFrom('head' as const, 'oldest' as const), by: near }) },
  { weight: 8, arbitrary: fc.record({ at: fc.constant('share' as const), percent: fc.nat(100) }) },
  // Table in which the modules of cafe change.
  {
    weight: 1,
    arbitrary: fc.record({
      at: fc.constant('start' as const),
      by: fc.constantFrom(399, 400, 799, 800, 899, 900, 901, 1200)
    })
  },
  {
    weight: 1,
    arbitrary: fc.record({
      at: fc.constant('number' as const),
      number: fc.constantFrom(
        '0',
        '1',
        '9007199254740991',
        '9007199254740992',
        '9007199254740993',
        '9223372036854775807',
        '9223372036854775808',
        '18446744073709551615',
        '18446744073709551616'
      )
    })
  }
)
const maybe = <T>(arbitrary: fc.Arbitrary<T>, freq = 4): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq })

/** Any read; few enough that many repeat. */
export const abstractRead: fc.Arbitrary<AbstractRead> = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      kind: fc.constant('table' as const),
      handle: fc.constantFrom('busy', 'busy', '5eed', '42'),
      key: fc.nat(tableKeys.length - 1),
      value: fc.nat(valueTypes.length - 1),
      version: maybe(version, 14)
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('modules' as const),
      account: fc.constantFrom('cafe', 'cafe', '42', '1', 'beef'),
      version: maybe(version, 14),
      limit: maybe(fc.constantFrom(1, 1, 2, 2, 3, 3, 10, 10, 65535, 65535, 0, 65536)),
      cursor: maybe(fc.nat(5), 1)
    })
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('events' as const),
      stream: fc.constantFrom(0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 5),
      start: maybe(
        fc.oneof({
          weight: 2,
          arbitrary: fc.record({ from: fc.constant('end' as const), by: fc.integer({ min: -12, max: 2 }) })
        }, {
          weight: 3,
          arbitrary: fc.record({ from: fc.constant('begin' as const), by: fc.integer({ min: 0, max: 120 }) })
        }),
        8
      ),
      limit: maybe(fc.constantFrom(1, 2, 3, 5, 9, 10, 11, 25), 2)
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('block' as const),
      version,
      transactions: fc.constantFrom(undefined, 'true' as const, 'true' as const, 'false' as const)
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('listing' as const),
      account: fc.constantFrom('cafe', 'cafe', '42', '1'),
      limit: fc.constantFrom(1, 1, 2, 3),
      cursor: maybe(fc.nat(3), 3),
      forged: maybe(version, 2)
    })
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('state' as const),
      account: fc.constantFrom('cafe', 'cafe', '42', '1', 'beef'),
      of: fc.nat(states.length - 1),
      version: maybe(version, 8)
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('view' as const),
      of: fc.nat(views.length - 1),
      version: maybe(version, 8)
    })
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('height' as const),
      version,
      transactions: fc.constantFrom(undefined, 'true' as const, 'false' as const)
    })
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('transaction' as const), version, isByHash: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('list' as const),
      start: maybe(version, 8),
      limit: maybe(fc.constantFrom(1, 2, 3, 25), 4)
    })
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('path' as const),
      target: fc.constantFrom(
        '/v1/estimate_gas_price',
        '/v1/info',
        '/v1',
        '/v1/blocks/by_height/100',
        '/v1/-/healthy',
        '/v1/accounts/0x1/transactions',
        '/v1/transactions?start=5'
      )
    })
  }
)

/** Returns the version that is meant. */
export function resolveVersion (at: VersionAt, ledger: Ledger): bigint {
  const floor = (version: bigint): bigint => version < 0n ? 0n : version
  switch (at.at) {
    case 'number':
      return BigInt(at.number)
    case 'head':
      return floor(ledger.head.version + BigInt(at.by))
    case 'oldest':
      return floor(ledger.oldest.version + BigInt(at.by))
    case 'share':
      return ledger.oldest.version + (ledger.head.version - ledger.oldest.version) * BigInt(at.percent) / 100n
    case 'start':
      return floor(ledger.startVersion + BigInt(at.by))
    case 'first':
    case 'last': {
      const block = ledger.block(Math.max(0, ledger.height - at.back))
      return floor((at.at === 'first' ? block.firstVersion : block.lastVersion) + BigInt(at.by))
    }
  }
}
