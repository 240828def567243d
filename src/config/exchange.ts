import { isDeepStrictEqual } from 'node:util'
import { type Config } from './schema.js'

// What a process reads once, when it starts.
const atStart: ReadonlyArray<readonly string[]> = [
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
export function keysThatStay (before: Config, now: Config): string[] {
  return atStart.filter(path => !isDeepStrictEqual(valueAt(before, path), valueAt(now, path))).map(path =>
    path.join('.')
  )
}

/** Whether a key is taken in when varve is started, and not by a process that runs. */
export function isReadAtStart (key: string): boolean {
  return atStart.some(path => key === path.join('.') || key.startsWith(`${path.join('.')}.`))
}

function valueAt (config: Config, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>>)[key], config)
}
