import { type Lie, type ExpectedOutcome } from '../try-lies.js'
import { thenKeepAlive, responseBytes } from '../response-bytes.js'
import { headPosition, type ReadKind, type TrueResponse } from '../read-kinds.js'

// Expects no effect on node info, which needs no position, and on forwarded reads, which are not judged by it. The
// false position is not shown.
const unplaced: Pick<Lie, 'cacheable' | 'forwarded'> = {
  cacheable: (_truth: TrueResponse, { name }: ReadKind): ExpectedOutcome => name === 'info' ? 'truth' : 'rejected',
  forwarded: 'truth'
}

const both = (value: string, name = 'ledger-version'): string[] => [`x-aptos-${name}: ${value}`]

const changes: ReadonlyArray<readonly [string, Readonly<Record<string, string | null>>]> = [
  ...Object.keys(headPosition).filter(name => name !== 'x-aptos-epoch').map((
    name
  ): [string, Record<string, null>] => [`a position without ${name}`, { [name]: null }]),
  ...[
    '',
    '-1',
    '+5',
    '0x5',
    '1e3',
    '5, 6',
    '5 6',
    '1000000.0',
    '18446744073709551616',
    '99999999999999999999',
    '1_000',
    '"5"',
    '\xd9\xa5',
    'NaN'
  ].map((bad): [string, Record<string, string>] => [`a ledger version of "${bad}"`, { 'x-aptos-ledger-version': bad }]),
  ['a chain of 300', { 'x-aptos-chain-id': '300' }],
  ['a chain of -1', { 'x-aptos-chain-id': '-1' }],
  ['an oldest version above the head', { 'x-aptos-ledger-oldest-version': '1000001' }],
  ['an oldest block above the head', { 'x-aptos-oldest-block-height': '100001' }],
  ['a time of 2^64', { 'x-aptos-ledger-timestampusec': '18446744073709551616' }],
  ['a time of 2^64-1', { 'x-aptos-ledger-timestampusec': '18446744073709551615' }],
  ['a time of 2^64-1 and a head below the one shown', {
    'x-aptos-ledger-timestampusec': '18446744073709551615',
    'x-aptos-ledger-version': '999999'
  }],
  ['a head of 2^64-1 at a time of 2^64-1', {
    'x-aptos-ledger-timestampusec': '18446744073709551615',
    'x-aptos-ledger-version': '18446744073709551615'
  }],
  ['a time in the year 2100', { 'x-aptos-ledger-timestampusec': '4102444800000000' }],
  ['a time in the year 2100 and a later head', {
    'x-aptos-ledger-timestampusec': '4102444800000000',
    'x-aptos-ledger-version': '1000500'
  }],
  ['a time in the year 2100 and a head below the one shown', {
    'x-aptos-ledger-timestampusec': '4102444800000000',
    'x-aptos-ledger-version': '999000'
  }],
  ['a block height beyond u64', { 'x-aptos-block-height': '18446744073709551616' }]
]

/** Positions that are malformed or contradict themselves. */
export const positionLies: readonly Lie[] = [
  ...changes.map(([name, stamps]): Lie => ({
    name,
    respond: truth => thenKeepAlive(responseBytes(truth, { stamps })),
    ...unplaced,
    reason: 'no_position'
  })),
  {
    name: 'no position at all',
    respond: truth => thenKeepAlive(responseBytes({ ...truth, positionHeaders: {} })),
    ...unplaced,
    reason: 'no_position'
  },
  {
    name: 'a position line twice',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: both('1000000') })),
    ...unplaced,
    reason: 'no_position'
  },
  {
    name: 'a position line twice with another value',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: both('7') })),
    ...unplaced,
    reason: 'no_position'
  },
  {
    name: 'an epoch twice',
    respond: truth => thenKeepAlive(responseBytes(truth, { lines: both('7', 'epoch') })),
    cacheable: 'truth',
    forwarded: 'truth'
  },
  {
    name: 'two families that contradict each other',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: Object.entries({ ...headPosition, 'x-aptos-ledger-version': '1000001' }).map(([name, value]) =>
            `${name.replace('x-aptos', 'x-node')}: ${value}`
          )
        })
      ),
    ...unplaced,
    reason: 'no_position'
  },
  {
    name: 'two families that contradict each other in their oldest version',
    respond: truth =>
      thenKeepAlive(
        responseBytes(truth, {
          lines: Object.entries({ ...headPosition, 'x-aptos-ledger-oldest-version': '11' }).map(([name, value]) =>
            `${name.replace('x-aptos', 'x-evil')}: ${value}`
          )
        })
      ),
    ...unplaced,
    reason: 'no_position'
  }
]

/** Well-formed positions of another chain or window: only the upstream's next response exposes them. */
export const foreignPositionLies: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
  ['another chain', { 'x-aptos-chain-id': '9' }],
  ['a later head at an earlier time', {
    'x-aptos-ledger-version': '1000001',
    'x-aptos-ledger-timestampusec': '4999999'
  }],
  ['the same head at an earlier time', { 'x-aptos-ledger-timestampusec': '4999999' }],
  ['an earlier head at a later time', {
    'x-aptos-ledger-version': '999000',
    'x-aptos-ledger-timestampusec': '5000001'
  }],
  ['a head of 2^64-1', { 'x-aptos-ledger-version': '18446744073709551615' }],
  ['a window below what is requested', {
    'x-aptos-ledger-version': '2',
    'x-aptos-ledger-oldest-version': '1',
    'x-aptos-ledger-timestampusec': '2'
  }],
  ['a window above what is requested', { 'x-aptos-ledger-oldest-version': '999999' }]
]
