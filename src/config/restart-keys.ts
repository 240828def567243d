import { isDeepStrictEqual } from 'node:util'
import { type Config } from './schema.js'

/** Keys that one process reads only at start. */
export const restartPaths = [
  'listen',
  'tls.certFile',
  'tls.keyFile',
  'tls.minVersion',
  'tls.ciphers',
  'admin.listen',
  'workers',
  'chainId',
  'head',
  'headers',
  'cache',
  'savings',
  'tracing'
] as const

/** Keys that the primary process reads only at start; its workers start again at each reload. */
export const primaryRestartPaths = ['admin.listen', 'cache.disk'] as const

/** Keys that a reload has changed. */
export interface ReloadedKeys {
  readonly changed: readonly string[]
  /** Keys that differ from the start and take effect only after a restart. */
  readonly needsRestart: readonly string[]
}

/** Compares the configuration of a reload with the configuration before it and the configuration of the start. */
export function reloadedKeys (
  started: Config,
  before: Config,
  after: Config,
  ofStart: readonly string[] = restartPaths
): ReloadedKeys {
  const needsRestart = differentKeys(started, after).filter(key =>
    ofStart.some(path => key === path || key.startsWith(`${path}.`))
  )
  return { changed: differentKeys(before, after), needsRestart }
}

/** Lists the full keys of the values that differ, never the values: some are secrets. */
function differentKeys (a: unknown, b: unknown, path: readonly string[] = []): string[] {
  // The list of keys from secret files is no key itself.
  if (isDeepStrictEqual(a, b) || path[0] === 'fromFiles') return []
  if (!isTree(a) || !isTree(b) || (Array.isArray(a) && a.length !== (b as unknown as unknown[]).length)) {
    return [path.join('.')]
  }
  return Object.keys({ ...a, ...b }).flatMap(key => differentKeys(a[key], b[key], [...path, key]))
}

function isTree (value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
