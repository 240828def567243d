import { type ModelResponse } from './request.js'
import { type Chain, type Era } from './chain.js'

/** Position on varve's response. */
export interface ServedPosition {
  readonly era: Era
  readonly version: bigint
  readonly height: number
  readonly oldest: bigint
  readonly oldestHeight: number
}

/** Positions served before a read was sent: lower bounds for its response. */
export interface ServedFloor {
  readonly era: number
  /** Versions by era. */
  readonly versions: readonly bigint[]
}

/** Furthest position that a process has served. */
export class Observations {
  floor: ServedFloor = { era: 0, versions: [] }

  observe ({ era: { index }, version }: Pick<ServedPosition, 'era' | 'version'>): void {
    const { era, versions } = this.floor
    if (version <= (versions[index] ?? -1n)) return
    const raised = Array.from({ length: Math.max(versions.length, index + 1) }, (_, at) => versions[at] ?? -1n)
    this.floor = { era: Math.max(era, index), versions: raised.with(index, version) }
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
export function servedPositionOf ({ headers }: ModelResponse, chain: Chain): ServedPosition | string | undefined {
  const lines = names.map(name => headers[`x-node-${name}`])
  if (names.some((name, at) => headers[`x-aptos-${name}`] !== lines[at])) return 'the two families of names differ'
  if (lines.every(line => line === undefined)) return undefined
  if (lines.some(line => typeof line !== 'string' || !/^\d+$/.test(line))) {
    return `a position that is not whole: ${lines.join(' ')}`
  }
  const [id, version = 0n, oldest = 0n, time = 0n, epoch, height = 0n, oldestHeight = 0n] = lines.map(line =>
    BigInt(String(line))
  )
  const era = chain.eraAt(time)
  if (era === undefined || height > era.archive.height) return `a position that no chain has: ${lines.join(' ')}`
  const expected = era.archive.position(Number(height))
  const isTrue = id === BigInt(expected.chainId) && version === expected.version && time === expected.timestampUsec &&
    epoch === expected.epoch
  if (!isTrue) return `the lines of the head do not belong together: ${lines.join(' ')}`
  if (oldestHeight > height || era.archive.block(oldestHeight).firstVersion !== oldest) {
    return `the lines of the oldest do not belong together: ${lines.join(' ')}`
  }
  return { era, version, height: Number(height), oldest, oldestHeight: Number(oldestHeight) }
}
