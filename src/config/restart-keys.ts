import { isDeepStrictEqual } from 'node:util'
import { type Config } from './schema.js'

/** Keys that a process reads only at start. */
export const restartPaths: ReadonlyArray<readonly string[]> = [
  ['listen'],
  ['tls', 'certFile'],
  ['tls', 'keyFile'],
  ['tls', 'minVersion'],
  ['tls', 'ciphers'],
  ['admin', 'listen'],
  ['workers'],
  ['chainId'],
  ['head'],
  ['headers'],
  ['cache'],
  ['tracing']
]

/** Lists the changed keys that take effect only after a restart. */
export function keysNeedingRestart (before: Config, after: Config): string[] {
  return restartPaths.filter(path => !isDeepStrictEqual(valueAt(before, path), valueAt(after, path))).map(path =>
    path.join('.')
  )
}

function valueAt (config: Config, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>>)[key], config)
}
