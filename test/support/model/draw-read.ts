import { transactionHash } from '../../../sandbox/transactions.js'
import { type SeededRandom } from './seeded-random.js'
import { type Era } from './chain.js'
import { expectedResponse } from './oracle.js'
import { pin, splitPinnedCursor } from './pinned-cursors.js'
import { plainRequest } from './render-request.js'
import {
  type ReadKind,
  type ReadSpec,
  states,
  type StreamName,
  tableKeys,
  valueTypes,
  views,
  wrongKey
} from './read-spec.js'

/** Facts from which reads are drawn. */
export interface ReadSource {
  readonly era: Era
  /** Window of each upstream. */
  readonly windows: ReadonlyArray<{ readonly oldest: bigint, readonly head: bigint }>
  /** Draws reads that nodes reject too, and versions that no node can have. */
  readonly isWild?: boolean
  /** Share of reads of state that name no version. */
  readonly latestShare?: number | undefined
  /** Cursors of earlier responses. */
  readonly cursors?: readonly string[]
  /** Heads at earlier times, the latest last. */
  readonly heads?: readonly bigint[]
}

type Weights = Partial<Record<ReadKind, number>>

const tame: Weights = { table: 30, modules: 30, block: 30, events: 20, gas: 10, info: 10, nonsense: 2 }
const wild: Weights = {
  table: 7,
  modules: 8,
  events: 8,
  block: 6,
  state: 4,
  view: 2,
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
  '/v1/accounts/0x1/transactions',
  '/v1/transactions?start=5'
] as const
const nonsense = [
  '/v1/accounts/0Xzz/modules',
  '/v1/blocks/by_version/-1',
  '/v1/accounts/0x1/modules?ledger_version=1.5',
  '/v1/blocks/by_version/7?with_transactions=True'
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
const usualLatestShare = 0.12
const freshKeyShare = 0.4
// Avoids longer blocks, which take more time to print than to judge.
const longBlock = 200
const noCursor = '00'

/** Draws a new read. */
export function drawRead (chance: SeededRandom, source: ReadSource): ReadSpec {
  const { era, isWild = false, latestShare = usualLatestShare } = source
  const kind = drawKind(chance, isWild ? wild : tame)
  const form = chance.happens(0.2) ? 'bcs' : 'json'
  const version = (): bigint | undefined => chance.happens(latestShare) ? undefined : drawVersion(chance, source)
  switch (kind) {
    case 'table':
      return { kind, form, ...drawTableItem(chance, isWild), version: version() }
    case 'modules':
      return drawModules(chance, source, version())
    case 'block': {
      const at = drawVersion(chance, source)
      return { kind, form, version: at, transactions: isInLongBlock(era, at) ? undefined : drawTransactions(chance) }
    }
    case 'events':
      return { kind, form, ...drawPage(chance, era, isWild) }
    case 'state':
      return { kind, form, account: drawAccount(chance), of: chance.integerBelow(states.length), version: version() }
    case 'view':
      return { kind, form, of: chance.integerBelow(views.length), version: version() }
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
    case 'nonsense':
      return { kind, form, target: chance.pick(nonsense) }
    case 'gas':
    case 'info':
      return { kind, form }
  }
}

function drawKind (chance: SeededRandom, weights: Weights): ReadKind {
  const all = Object.entries(weights) as Array<[ReadKind, number]>
  let draw = chance.next() * all.reduce((sum, [, weight]) => sum + weight, 0)
  return (all.find(([, weight]) => (draw -= weight) < 0) ?? all[0] ?? ['info'])[0]
}

/** Draws versions all over an upstream's window, at its edges and those of blocks, below and above it. */
function drawVersion (chance: SeededRandom, { windows, era: { archive }, isWild = false }: ReadSource): bigint {
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
  return isWild ? chance.pick(wildNumbers) : archive.head.version + BigInt(chance.integerBetween(1, 100_000))
}

/** Draws a key, sometimes one of no table, whose not-found quotes the client's text. */
function drawTableItem (
  chance: SeededRandom,
  isWild: boolean
): Pick<ReadSpec & { kind: 'table' }, 'handle' | 'keyType' | 'keys' | 'valueType'> {
  const number = String(chance.happens(0.5) ? chance.integerBelow(10) : chance.integerBetween(100, 140))
  const fresh = { type: 'u64', texts: [`"${number}"`, `"00${number}"`] }
  const { type, texts } = isWild && chance.happens(0.05)
    ? wrongKey
    : chance.happens(isWild ? 0.1 : freshKeyShare)
    ? fresh
    : chance.pick(tableKeys)
  return {
    handle: chance.pick(isWild ? ['5eed', '5eed', '5eed', '5eed', '42'] : ['5eed', '42']),
    keyType: type,
    keys: texts,
    valueType: isWild ? chance.pick(valueTypes) : chance.pick(['u64', 'address'])
  }
}

/** Draws a page of modules, sometimes a later one, and in a wild run with forged cursors. */
function drawModules (chance: SeededRandom, source: ReadSource, version: bigint | undefined): ReadSpec {
  const { era, isWild = false } = source
  const first = {
    kind: 'modules',
    form: chance.happens(0.2) ? 'bcs' : 'json',
    account: isWild ? drawAccount(chance) : chance.pick(['1', '42', 'cafe', 'abc']),
    limit: chance.happens(isWild ? 0.75 : 0.8)
      ? chance.pick(isWild ? [1, 1, 2, 2, 3, 3, 10, 10, 65535, 0, 65536] : [1, 2, 3, 4, 5])
      : undefined,
    cursor: undefined,
    version: isWild && chance.happens(0.35) ? undefined : version
  } as const
  if (chance.happens(0.6)) return first
  if (isWild) return continued(first, chance, source)
  if (first.limit === undefined || (first.version ?? 0n) > era.archive.head.version) return first
  const page = expectedResponse(era, plainRequest(first), { height: era.archive.height })
  return { ...first, cursor: page.headers.find(([name]) => name === 'x-aptos-cursor')?.[1] }
}

/** Returns a later page of modules, by a recent cursor or a forged one. */
export function continued (
  read: ReadSpec & { readonly kind: 'modules' },
  chance: SeededRandom,
  source: ReadSource
): ReadSpec {
  const { cursors = [] } = source
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
  { archive }: Era,
  isWild: boolean
): { stream: StreamName, start: number | undefined, limit: number | undefined } {
  const stream = isWild && chance.happens(0.1)
    ? chance.pick<StreamName>(['wrong type', 'wrong field'])
    : chance.pick<StreamName>(['blocks', 'blocks', 'blocks', 'deposits', 'deposits', 'epochs', 'nothing'])
  const limit = chance.happens(0.8) ? chance.integerBetween(1, isWild ? 12 : 30) : undefined
  if (chance.happens(0.15)) return { stream, start: undefined, limit }
  if (isWild && chance.happens(0.5)) return { stream, start: chance.integerBelow(121), limit }
  const blocksBack = chance.happens(isWild ? 0.3 : 0.7) ? chance.integerBelow(200) : chance.integerBelow(12)
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
