import { type SeededRandom } from './seeded-random.js'
import { type Era } from './chain.js'
import { type SimulatedPool } from './simulated-pool.js'
import { expectedResponse } from './oracle.js'
import { renderRequest } from './render-request.js'

/** A read, in any request variant. */
export type ReadSpec =
  & { readonly form: 'json' | 'bcs' }
  & (
    | {
      readonly kind: 'table',
      readonly handle: string,
      readonly keyType: string,
      readonly key: string,
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
    | { readonly kind: 'block', readonly version: bigint, readonly hasTransactions: boolean }
    | {
      readonly kind: 'events',
      readonly stream: StreamName,
      readonly start: number | undefined,
      readonly limit: number | undefined
    }
    | { readonly kind: 'gas' | 'info' | 'nonsense' }
  )

/** Event streams of the embedded node. */
export type StreamName = 'blocks' | 'epochs' | 'deposits' | 'nothing'

/** Version that a read names. */
export function versionOf (wish: ReadSpec): bigint | undefined {
  return 'version' in wish ? wish.version : undefined
}

// Equal shares of each kind, more for cacheable reads.
const kinds = [
  'table',
  'table',
  'table',
  'modules',
  'modules',
  'modules',
  'block',
  'block',
  'block',
  'events',
  'events',
  'gas',
  'info'
] as const
const latestShare = 0.15
// Avoids longer blocks, which take more time to print than to judge.
const longBlock = 200

/** Draws a new read. */
export function drawRead (chance: SeededRandom, fleet: SimulatedPool, era: Era): ReadSpec {
  const form = chance.happens(0.2) ? 'bcs' : 'json'
  const kind = chance.happens(0.02) ? 'nonsense' : chance.pick(kinds)
  const version = (): bigint | undefined => chance.happens(latestShare) ? undefined : drawVersion(chance, fleet, era)
  switch (kind) {
    case 'table': {
      const [keyType, key] = drawKey(chance)
      return {
        kind,
        form,
        handle: chance.pick(['5eed', '42']),
        keyType,
        key,
        valueType: chance.pick(['u64', 'address']),
        version: version()
      }
    }
    case 'modules':
      return drawModules(chance, era, {
        kind,
        form,
        account: chance.pick(['1', '42', 'cafe', 'abc']),
        limit: chance.happens(0.8) ? chance.integerBetween(1, 5) : undefined,
        cursor: undefined,
        version: version()
      })
    case 'block': {
      const at = drawVersion(chance, fleet, era)
      return { kind, form, version: at, hasTransactions: chance.happens(0.5) && !isInLongBlock(era, at) }
    }
    case 'events':
      return { kind, form, ...drawPage(chance, era) }
    case 'gas':
    case 'info':
    case 'nonsense':
      return { kind, form }
  }
}

/** Returns the same read at a version nearby, which a cache must not confuse. */
export function neighbouringRead (wish: ReadSpec, chance: SeededRandom): ReadSpec {
  const by = BigInt(chance.integerBetween(-6, 6))
  if (wish.kind === 'table' || wish.kind === 'modules') {
    return wish.version === undefined || wish.version + by < 0n
      ? wish
      : { ...wish, version: wish.version + by }
  }
  if (wish.kind === 'block') {
    return wish.version + by < 0n
      ? wish
      : { ...wish, version: wish.version + by, hasTransactions: false }
  }
  if (wish.kind === 'events') {
    return wish.start === undefined
      ? wish
      : { ...wish, start: Math.max(0, wish.start + Number(by)) }
  }
  return wish
}

/** Draws versions all over an upstream's window, at its edges, below and above it. */
function drawVersion (chance: SeededRandom, fleet: SimulatedPool, era: Era): bigint {
  const [first] = fleet.upstreams
  if (first === undefined) return 0n
  const { oldest, head } = chance.pick([first, ...fleet.upstreams]).window
  const near = (version: bigint, least: number, most: number): bigint => {
    const drawn = version + BigInt(chance.integerBetween(least, most))
    return drawn < 0n ? 0n : drawn
  }
  const draw = chance.next()
  if (draw < 0.5) return oldest + BigInt(chance.integerBelow(Number(head - oldest) + 1))
  if (draw < 0.68) return near(head, -25, 0)
  if (draw < 0.78) return near(head, -2, 3)
  if (draw < 0.9) return near(oldest, -3, 6)
  if (draw < 0.96) return BigInt(chance.integerBelow(Number(oldest) + 1))
  return era.archive.head.version + BigInt(chance.integerBetween(1, 100_000))
}

function drawKey (chance: SeededRandom): [type: string, key: string] {
  const draw = chance.next()
  // Draws keys from 100 on: some are in no table, and their not-found quotes the client's text.
  if (draw < 0.7) {
    return [
      'u64',
      JSON.stringify(String(chance.happens(0.5) ? chance.integerBelow(10) : chance.integerBetween(100, 140)))
    ]
  }
  if (draw < 0.85) return ['0x1::string::String', JSON.stringify(chance.pick(['alice', 'bob', 'nobody', 'carol']))]
  return ['address', JSON.stringify(`0x${chance.integerBetween(1, 30).toString(16)}`)]
}

/** Draws a page of modules, sometimes the next one. */
function drawModules (chance: SeededRandom, era: Era, first: ReadSpec & { kind: 'modules' }): ReadSpec {
  if (first.limit === undefined || chance.happens(0.6) || (first.version ?? 0n) > era.archive.head.version) return first
  const cursor = expectedResponse(era, renderRequest(first), era.archive.height).headers.find(([name]) =>
    name === 'x-aptos-cursor'
  )
    ?.[1]
  return { ...first, cursor }
}

function drawPage (
  chance: SeededRandom,
  { archive }: Era
): { stream: StreamName, start: number | undefined, limit: number | undefined } {
  const stream = chance.pick<StreamName>(['blocks', 'blocks', 'deposits', 'deposits', 'epochs', 'nothing'])
  const limit = chance.happens(0.8) ? chance.integerBetween(1, 30) : undefined
  if (chance.happens(0.2)) return { stream, start: undefined, limit }
  const blocksBack = chance.happens(0.7) ? chance.integerBelow(200) : chance.integerBelow(12)
  const every = { blocks: 1, deposits: 3, epochs: 200, nothing: 1 }[stream]
  return {
    stream,
    start: Math.max(0, Math.floor((archive.height - blocksBack) / every) + (chance.happens(0.1) ? 3 : 0)),
    limit
  }
}

function isInLongBlock ({ archive }: Era, version: bigint): boolean {
  if (version > archive.head.version) return false
  const { firstVersion, lastVersion } = archive.blockOf(version)
  return lastVersion - firstVersion > longBlock
}
