import { transactionHash } from '../../../sandbox/kinds/outcome.js'
import { type SeededRandom } from './seeded-random.js'
import { type Era } from './chain.js'
import {
  type ReadKind,
  type ReadSpec,
  stateKeys,
  states,
  type StreamName,
  tableKeys,
  valueTypes,
  views,
  wrongKey
} from './read-spec.js'
import { pin, splitPinnedCursor } from './request.js'

/** Facts from which reads are drawn. */
export interface ReadSource {
  readonly era: Era
  /** Window of each upstream. */
  readonly windows: ReadonlyArray<{ readonly oldest: bigint, readonly head: bigint }>
  /** Share of reads of state that name no version. */
  readonly latestShare: number
  /** Cursors of earlier responses. */
  readonly cursors: readonly string[]
  /** Heads at earlier times, the latest last. */
  readonly heads: readonly bigint[]
}

const weights: Partial<Record<ReadKind, number>> = {
  table: 7,
  modules: 8,
  events: 8,
  block: 6,
  state: 4,
  view: 2,
  value: 2,
  height: 2,
  transaction: 3,
  list: 2,
  path: 1
}
const paths = [
  '/v1/estimate_gas_price',
  '/v1/info',
  '/v1',
  '/v1/blocks/by_height/100',
  '/v1/-/healthy',
  '/v1/accounts/0xa11ce/transactions?start=2&limit=3',
  '/v1/accounts/0xa11ce/transaction_summaries?start_version=1700&limit=3',
  '/v1/transactions/auxiliary_info?start_version=1700&limit=3',
  '/v1/transactions?start=5'
] as const
// Versions at which the modules of cafe change, counted from the start of the chain.
const moduleChanges = [399, 400, 799, 800, 899, 900, 901, 1200] as const
const wildNumbers = [
  0n,
  1n,
  9007199254740991n,
  9007199254740992n,
  9007199254740993n,
  9223372036854775807n,
  9223372036854775808n,
  18446744073709551615n,
  18446744073709551616n
] as const
// Avoids longer blocks, which take more time to print than to judge.
const longBlock = 200
const noCursor = '00'

/** Draws a new read. */
export function drawRead (chance: SeededRandom, source: ReadSource): ReadSpec {
  const { era, latestShare } = source
  const kind = drawKind(chance)
  const form = chance.happens(0.2) ? 'bcs' : 'json'
  const version = (): bigint | undefined => chance.happens(latestShare) ? undefined : drawVersion(chance, source)
  switch (kind) {
    case 'table':
      return { kind, form, ...drawTableItem(chance), version: version() }
    case 'modules':
      return drawModules(chance, source, version())
    case 'block': {
      const at = drawVersion(chance, source)
      return { kind, form, version: at, transactions: isInLongBlock(era, at) ? undefined : drawTransactions(chance) }
    }
    case 'events':
      return { kind, form, ...drawPage(chance, era) }
    case 'state':
      return { kind, form, account: drawAccount(chance), of: chance.integerBelow(states.length), version: version() }
    case 'view':
      return { kind, form, of: chance.integerBelow(views.length), version: version() }
    case 'value':
      return { kind, form, of: chance.integerBelow(stateKeys.length), version: version() }
    case 'height': {
      const at = drawVersion(chance, source)
      const isThere = at >= era.archive.startVersion && at <= era.archive.head.version
      return {
        kind,
        form,
        height: isThere ? era.archive.blockOf(at).height : at,
        transactions: drawTransactions(chance)
      }
    }
    case 'transaction': {
      const at = drawVersion(chance, source)
      return { kind, form, version: at, hash: chance.happens(0.5) ? transactionHash(era.archive, at) : undefined }
    }
    case 'list':
      return { kind, form, start: version(), limit: chance.pick([undefined, 1, 2, 3, 25]) }
    case 'path':
      return { kind, form, target: chance.pick(paths) }
  }
}

function drawKind (chance: SeededRandom): ReadKind {
  const all = Object.entries(weights) as Array<[ReadKind, number]>
  let draw = chance.next() * all.reduce((sum, [, weight]) => sum + weight, 0)
  return (all.find(([, weight]) => (draw -= weight) < 0) ?? all[0] ?? ['table'])[0]
}

/** Draws versions all over an upstream's window, at its edges and those of blocks, below and above it. */
function drawVersion (chance: SeededRandom, { windows, era: { archive } }: ReadSource): bigint {
  const { startVersion } = archive
  const [first] = windows
  if (first === undefined) return startVersion
  const { oldest, head } = chance.pick([first, ...windows])
  const near = (version: bigint, least: number, most: number): bigint => {
    const drawn = version + BigInt(chance.integerBetween(least, most))
    return drawn < 0n ? 0n : drawn
  }
  const draw = chance.next()
  if (draw < 0.5) return oldest + BigInt(chance.integerBelow(Number(head - oldest) + 1))
  if (draw < 0.6) {
    const { firstVersion, lastVersion } = archive.block(Math.max(0, archive.height - chance.integerBetween(0, 12)))
    return near(chance.pick([firstVersion, lastVersion]), -3, 3)
  }
  if (draw < 0.68) return near(head, -25, 0)
  if (draw < 0.78) return near(head, -2, 3)
  if (draw < 0.88) return near(oldest, -3, 6)
  if (draw < 0.92) return startVersion + BigInt(chance.pick(moduleChanges))
  if (draw < 0.96) return startVersion + BigInt(chance.integerBelow(Number(oldest - startVersion) + 1))
  return chance.pick(wildNumbers)
}

/** Draws a key, sometimes one of no table, whose not-found quotes the client's text. */
function drawTableItem (
  chance: SeededRandom
): Pick<ReadSpec & { kind: 'table' }, 'handle' | 'keyType' | 'keys' | 'valueType'> {
  const number = String(chance.happens(0.5) ? chance.integerBelow(10) : chance.integerBetween(100, 140))
  const fresh = { type: 'u64', texts: [`"${number}"`, `"00${number}"`] }
  const { type, texts } = chance.happens(0.05)
    ? wrongKey
    : chance.happens(0.1)
    ? fresh
    : chance.pick(tableKeys)
  return {
    handle: chance.pick(['5eed', '5eed', '5eed', '5eed', '42']),
    keyType: type,
    keys: texts,
    valueType: chance.pick(valueTypes)
  }
}

/** Draws a page of modules, sometimes a later one with a known or forged cursor. */
function drawModules (chance: SeededRandom, source: ReadSource, version: bigint | undefined): ReadSpec {
  const first = {
    kind: 'modules',
    form: chance.happens(0.2) ? 'bcs' : 'json',
    account: drawAccount(chance),
    limit: chance.happens(0.75) ? chance.pick([1, 1, 2, 2, 3, 3, 10, 10, 65535, 0, 65536]) : undefined,
    cursor: undefined,
    version: chance.happens(0.35) ? undefined : version
  } as const
  return chance.happens(0.6) ? first : continued(first, chance, source)
}

/** Returns a later page of modules, by a recent cursor or a forged one. */
export function continued (
  read: ReadSpec & { readonly kind: 'modules' },
  chance: SeededRandom,
  source: ReadSource
): ReadSpec {
  const { cursors } = source
  const cursor = cursors[cursors.length - 1 - chance.integerBelow(Math.min(4, cursors.length))] ?? noCursor
  const isForged = read.version === undefined && chance.happens(0.2)
  return {
    ...read,
    cursor: isForged
      ? pin(drawVersion(chance, source) % 2n ** 64n, splitPinnedCursor(cursor)?.own ?? cursor)
      : cursor
  }
}

function drawPage (
  chance: SeededRandom,
  { archive }: Era
): { stream: StreamName, start: number | undefined, limit: number | undefined } {
  const stream = chance.happens(0.1)
    ? chance.pick<StreamName>(['wrong type', 'wrong field'])
    : chance.pick<StreamName>(['blocks', 'blocks', 'blocks', 'deposits', 'deposits', 'epochs', 'nothing'])
  const limit = chance.happens(0.8) ? chance.integerBetween(1, 12) : undefined
  if (chance.happens(0.15)) return { stream, start: undefined, limit }
  if (chance.happens(0.5)) return { stream, start: chance.integerBelow(121), limit }
  const blocksBack = chance.happens(0.3) ? chance.integerBelow(200) : chance.integerBelow(12)
  const every = stream === 'deposits' || stream === 'wrong type' ? 3 : stream === 'epochs' ? 200 : 1
  return {
    stream,
    start: Math.max(0, Math.floor((archive.height - blocksBack) / every) + (chance.happens(0.1) ? 3 : 0)),
    limit
  }
}

const drawAccount = (chance: SeededRandom): string => chance.pick(['cafe', 'cafe', '42', '1', 'beef'])

const drawTransactions = (chance: SeededRandom): 'true' | 'false' | undefined =>
  chance.pick([undefined, 'false', 'true', 'true'])

function isInLongBlock ({ archive }: Era, version: bigint): boolean {
  if (version < archive.startVersion || version > archive.head.version) return false
  const { firstVersion, lastVersion } = archive.blockOf(version)
  return lastVersion - firstVersion > longBlock
}

/** Returns a read with one difference, which a cache must not confuse. */
export function neighbouringRead (read: ReadSpec, chance: SeededRandom, source: ReadSource): ReadSpec {
  const by = chance.pick([-1, 1, -2, 2, chance.integerBetween(-6, 6)])
  const moved = (number: bigint): bigint => number + BigInt(by) < 0n ? 0n : number + BigInt(by)
  const movedVersion = (version: bigint | undefined): bigint | undefined =>
    version === undefined ? version : moved(version)
  switch (read.kind) {
    case 'table':
    case 'modules':
      return neighbourOfState(read, chance, source, by)
    case 'events':
      return chance.happens(0.6)
        ? chance.pick([
          { ...read, start: undefined },
          { ...read, limit: read.limit === undefined ? 9 : undefined },
          { ...read, stream: read.stream === 'deposits' ? 'wrong type' : 'deposits' }
        ])
        : { ...read, start: read.start === undefined ? undefined : Math.max(0, read.start + by) }
    case 'block':
      return chance.happens(0.5)
        ? { ...read, transactions: read.transactions === 'true' ? undefined : 'true' }
        : { ...read, version: moved(read.version), transactions: undefined }
    case 'state':
    case 'view':
    case 'value':
      return chance.pick([
        { ...read, version: lately(chance, source) },
        { ...read, version: movedVersion(read.version) },
        { ...read, of: chance.integerBelow({ state: states, view: views, value: stateKeys }[read.kind].length) }
      ])
    case 'height':
      return chance.happens(0.5)
        ? { ...read, height: moved(read.height) }
        : { ...read, transactions: read.transactions === 'true' ? undefined : 'true' }
    case 'transaction':
      return { ...read, version: moved(read.version), hash: undefined }
    case 'list':
      return chance.happens(0.5)
        ? { ...read, start: movedVersion(read.start) }
        : { ...read, limit: read.limit === undefined ? 2 : undefined }
    case 'path':
      return read
  }
}

function neighbourOfState (
  read: ReadSpec & { readonly kind: 'table' | 'modules' },
  chance: SeededRandom,
  source: ReadSource,
  by: number
): ReadSpec {
  if (chance.happens(0.3)) return { ...read, version: chance.happens(0.7) ? lately(chance, source) : undefined }
  if (chance.happens(0.25) && read.version !== undefined && read.version + BigInt(by) >= 0n) {
    return { ...read, version: read.version + BigInt(by) }
  }
  if (read.kind === 'table') {
    return chance.pick([
      { ...read, valueType: chance.pick(['0x42::game::Cell', '0x42::game::cell']) },
      { ...read, valueType: chance.pick(valueTypes) },
      { ...read, handle: read.handle === '42' ? '5eed' : '42' },
      // The same text of another type is another key.
      { ...read, keyType: read.keyType === 'u64' ? 'u128' : read.keyType === 'u8' ? 'u16' : 'address' }
    ])
  }
  const pinned = splitPinnedCursor(read.cursor ?? '')
  if (pinned !== undefined && chance.happens(0.5)) {
    return { ...read, cursor: pin(pinned.version + BigInt(by) < 0n ? 0n : pinned.version + BigInt(by), pinned.own) }
  }
  return chance.pick([
    { ...read, limit: read.limit === undefined ? 2 : read.limit + 1 },
    { ...read, limit: read.limit === 1 ? 2 : 1 },
    { ...read, limit: undefined },
    { ...read, cursor: undefined },
    { ...read, account: read.account === 'cafe' ? '42' : 'cafe' }
  ])
}

/** Returns the version of a recent latest read, or its neighbour. */
function lately (chance: SeededRandom, { heads, era }: ReadSource): bigint {
  const head = heads[heads.length - 1 - chance.integerBelow(2)] ?? era.archive.head.version
  return head + BigInt(chance.integerBetween(-1, 1))
}
