import { type ReadSource } from './draw-read.js'
import { pin, splitPinnedCursor } from './pinned-cursors.js'
import { type ReadSpec, states, valueTypes, views } from './read-spec.js'
import { type SeededRandom } from './seeded-random.js'

/** Returns a read with one difference, which a cache must not confuse. */
export function neighbouringRead (read: ReadSpec, chance: SeededRandom, source: ReadSource): ReadSpec {
  const by = chance.pick([-1, 1, -2, 2, chance.integerBetween(-6, 6)])
  const moved = (number: bigint): bigint => number + BigInt(by) < 0n ? 0n : number + BigInt(by)
  const movedVersion = (version: bigint | undefined): bigint | undefined =>
    version === undefined ? version : moved(version)
  const { isWild = false } = source
  switch (read.kind) {
    case 'table':
    case 'modules':
      return isWild ? wildNeighbour(read, chance, source, by) : { ...read, version: movedVersion(read.version) }
    case 'events':
      return isWild && chance.happens(0.6)
        ? chance.pick([
          { ...read, start: undefined },
          { ...read, limit: read.limit === undefined ? 9 : undefined },
          { ...read, stream: read.stream === 'deposits' ? 'wrong type' : 'deposits' }
        ])
        : { ...read, start: read.start === undefined ? undefined : Math.max(0, read.start + by) }
    case 'block':
      return isWild && chance.happens(0.5)
        ? { ...read, transactions: read.transactions === 'true' ? undefined : 'true' }
        : { ...read, version: moved(read.version), transactions: undefined }
    case 'state':
    case 'view':
      return chance.pick([
        { ...read, version: lately(chance, source) },
        { ...read, version: movedVersion(read.version) },
        { ...read, of: chance.integerBelow(read.kind === 'state' ? states.length : views.length) }
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
    case 'gas':
    case 'info':
    case 'path':
    case 'nonsense':
      return read
  }
}

function wildNeighbour (
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
function lately (chance: SeededRandom, { heads = [], era }: ReadSource): bigint {
  const head = heads[heads.length - 1 - chance.integerBelow(2)] ?? era.archive.head.version
  return head + BigInt(chance.integerBetween(-1, 1))
}
