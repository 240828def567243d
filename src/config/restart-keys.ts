import { isDeepStrictEqual } from 'node:util'
import { type Config } from './schema.js'

// What a process reads once, when it starts.
const restartPaths: ReadonlyArray<readonly string[]> = [
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
  ['cache']
]

/** The keys that are other ones now, and that a process takes in at its start alone. */
export function keysNeedingRestart (before: Config, after: Config): string[] {
  return restartPaths.filter(path => !isDeepStrictEqual(valueAt(before, path), valueAt(after, path))).map(path =>
    path.join('.')
  )
}

/** Whether a key is taken in when varve is started, and not by a process that runs. */
export function needsRestart (key: string): boolean {
  return restartPaths.some(path => key === path.join('.') || key.startsWith(`${path.join('.')}.`))
}

function valueAt (config: Config, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>>)[key], config)
}
