import { type ModelResponse } from './response-difference.js'
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

// Longer than any micro-cache time.
const rememberedMs = 5000

/** Furthest served position, now and a while ago, and reads known to be cached. */
export class Observations {
  #versions: readonly bigint[] = []
  #floors: Array<{ readonly at: number, readonly floor: ServedFloor }> = []
  readonly #cached = new Set<string>()
  #isPaused = false
  #resumedAt = -Infinity

  get floor (): ServedFloor {
    return { era: Math.max(0, this.#versions.length - 1), versions: this.#versions }
  }

  /** Returns the position served by a time. */
  floorAt (time: number): ServedFloor {
    return this.#floors.findLast(({ at }) => at <= time)?.floor ?? { era: 0, versions: [] }
  }

  observe ({ era, version }: ServedPosition): void {
    if (this.#isPaused || version <= (this.#versions[era.index] ?? -1n)) return
    this.#versions = Array.from(
      { length: Math.max(this.#versions.length, era.index + 1) },
      (_, at) => at === era.index ? version : this.#versions[at] ?? -1n
    )
    const now = performance.now()
    this.#floors.push({ at: now, floor: this.floor })
    if (this.#floors.length > 1000) this.#floors = this.#floors.filter(({ at }) => at > now - rememberedMs)
  }

  /** Forgets all lower bounds, and learns no others while other processes replace those that served them. */
  pause (): void {
    this.#isPaused = true
    this.#versions = []
    this.#floors = []
  }

  resume (): void {
    if (this.#isPaused) this.#resumedAt = performance.now()
    this.#isPaused = false
  }

  /** True if processes were replaced after a time: connections without a request under way may have been closed. */
  wasPausedSince (time: number): boolean {
    return this.#isPaused || this.#resumedAt > time
  }

  noteCached (name: string): void {
    this.#cached.add(name)
  }

  isCached (name: string): boolean {
    return this.#cached.has(name)
  }

  /** Expects no cached reads from now on. */
  dropCached (): void {
    this.#cached.clear()
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
