import { type TestResponse } from '../client.js'
import { type Chain, type Era } from './chain.js'

/** Position on varve's response. */
export interface ServedPosition {
  readonly era: Era
  readonly version: bigint
  readonly height: number
  readonly oldest: bigint
}

/** Positions served before a read was sent: lower bounds for its response. */
export interface ServedFloor {
  readonly era: number
  /** Versions by era. */
  readonly versions: readonly bigint[]
}

/** Furthest served position, and reads known to be cached. */
export class Observations {
  #versions: readonly bigint[] = []
  readonly #kept = new Set<string>()

  get floor (): ServedFloor {
    return { era: Math.max(0, this.#versions.length - 1), versions: this.#versions }
  }

  observe ({ era, version }: ServedPosition): void {
    if (version <= (this.#versions[era.index] ?? -1n)) return
    this.#versions = Array.from(
      { length: Math.max(this.#versions.length, era.index + 1) },
      (_, at) => at === era.index ? version : this.#versions[at] ?? -1n
    )
  }

  noteCached (name: string): void {
    this.#kept.add(name)
  }

  isCached (name: string): boolean {
    return this.#kept.has(name)
  }
}

const names = [
  'chain-id',
  'ledger-version',
  'ledger-oldest-version',
  'ledger-timestampusec',
  'epoch',
  'block-height',
  'oldest-block-height'
] as const

/** Returns the position on a response; a text if it is malformed, undefined if there is none. */
export function servedPositionOf ({ headers }: TestResponse, chain: Chain): ServedPosition | string | undefined {
  const lines = names.map(name => headers[`x-node-${name}`])
  if (lines.every(line => line === undefined)) return undefined
  if (names.some((name, at) => headers[`x-aptos-${name}`] !== lines[at])) {
    return 'the two families of names say different things'
  }
  if (lines.some(line => typeof line !== 'string' || !/^\d+$/.test(line))) {
    return `a position that is not whole: ${lines.join(' ')}`
  }
  const [id, version = 0n, oldest = 0n, time = 0n, epoch, height = 0n, oldestHeight = 0n] = lines.map(line =>
    BigInt(String(line))
  )
  const era = chain.eraAt(time)
  if (era === undefined || height > era.archive.height) return `a position that no chain has: ${lines.join(' ')}`
  const told = era.archive.position(Number(height))
  const isTrue = id === BigInt(told.chainId) && version === told.version && time === told.timestampUsec &&
    epoch === told.epoch
  if (!isTrue) return `the lines of the head do not belong together: ${lines.join(' ')}`
  if (oldestHeight > height || era.archive.block(oldestHeight).firstVersion !== oldest) {
    return `the lines of the oldest do not belong together: ${lines.join(' ')}`
  }
  return { era, version, height: Number(height), oldest }
}
