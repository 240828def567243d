import { isDeepStrictEqual } from 'node:util'
import { type Config } from './schema.js'

// What a process reads once, when it starts.
const atStart: ReadonlyArray<readonly string[]> = [
  ['listen'], ['tls', 'certFile'], ['tls', 'keyFile'], ['admin', 'listen'], ['workers'], ['chainId'], ['head'], ['cache']
]

/** The keys that are other ones now, and that a process takes in at its start alone. */
export function keysThatStay (before: Config, now: Config): string[] {
  const keys = atStart.filter(path => !isDeepStrictEqual(valueAt(before, path), valueAt(now, path))).map(path => path.join('.'))
  // The embedded node is begun with the process, and its chain is no other's.
  return (before.upstreams.length === 0) === (now.upstreams.length === 0) ? keys : [...keys, 'upstreams']
}

function valueAt (config: Config, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>>)[key], config)
}
