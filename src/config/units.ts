import { type Config } from './schema.js'

const second = 1000
const kb = 1024

/** Bytes of an MB in each key of the configuration. */
export const bytesPerMb = kb ** 2
/** Bytes of a GB in each key of the configuration. */
export const bytesPerGb = kb ** 3

const milliseconds: Readonly<Record<string, number>> = {
  ms: 1,
  s: second,
  m: 60 * second,
  h: 3600 * second,
  d: 86_400 * second
}
const bytes: Readonly<Record<string, number>> = {
  B: 1,
  KB: kb,
  MB: kb ** 2,
  GB: kb ** 3,
  TB: kb ** 4
}

/** Kinds of keys whose values may carry a unit, by the suffix of their name. */
const keyUnits = [
  { suffix: /(?:^ms|Ms)$/, units: milliseconds, own: 1, example: '250ms, 5s or 2m' },
  { suffix: /Seconds$/, units: milliseconds, own: second, example: '30s, 5m or 1h' },
  { suffix: /Kb$/, units: bytes, own: kb, example: '16KB or 1MB' },
  { suffix: /Mb$/, units: bytes, own: kb ** 2, example: '256MB or 2GB' },
  { suffix: /Gb$/, units: bytes, own: kb ** 3, example: '500MB or 10GB' }
] as const

/** Returns examples of texts with a unit that a key takes; undefined for a key without a unit. */
export function unitExamplesOf (key: string): string | undefined {
  return keyUnits.find(({ suffix }) => suffix.test(key))?.example
}

/** Converts a text with a unit to the unit of its key, in place; any other text stays, for validation to reject. */
export function convertUnitsInTree (tree: unknown): void {
  if (typeof tree !== 'object' || tree === null) return
  const map = tree as Record<string, unknown>
  for (const [key, value] of Object.entries(map)) {
    // Skips headers, because an upstream chooses their names: a name that ends in Ms has no unit.
    if (key !== 'headers') convertUnitsInTree(value)
    if (typeof value === 'string') map[key] = inUnitOf(key, value)
  }
}

function inUnitOf (key: string, text: string): number | string {
  const found = keyUnits.find(({ suffix }) => suffix.test(key))
  const [, count, unit = ''] = /^([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,3})$/.exec(text) ?? []
  const factor = found?.units[found.units === bytes ? unit.replace(/^([KMGT])iB$/, '$1B') : unit]
  if (found === undefined || factor === undefined) return text
  // Removes the noise of fractions: 0.1 s is 100 ms.
  return Number((Number(count) * factor / found.own).toPrecision(12))
}

const minInFlightMb = 64
// The budget has room for at least this many responses of `cache.maxEntryMb`.
const minEntries = 2
const inFlightShare = 1 / 4

/** Returns the budget for bytes outside the cache in MB: `limits.inFlightMb`, or its default for all workers. */
export function inFlightMbOf ({ limits, cache: { memory, maxEntryMb }, workers }: Config): number {
  const each = Math.max(minInFlightMb, minEntries * maxEntryMb)
  return limits.inFlightMb ?? Math.ceil(Math.max(each * workers, memory.maxMb * inFlightShare))
}
