import { isDeepStrictEqual } from 'node:util'
import { ConfigError } from './mistakes.js'
import { type Config } from './schema.js'

// What a process reads once, when it starts.
const atStart: ReadonlyArray<readonly string[]> = [
  ['listen'], ['tls', 'certFile'], ['tls', 'keyFile'], ['tls', 'minVersion'], ['tls', 'ciphers'], ['admin', 'listen'], ['workers'], ['chainId'], ['head'], ['headers'], ['cache']
]

/** The keys that are other ones now, and that a process takes in at its start alone. */
export function keysThatStay (before: Config, now: Config): string[] {
  return atStart.filter(path => !isDeepStrictEqual(valueAt(before, path), valueAt(now, path))).map(path => path.join('.'))
}

/** Whether a key is taken in when varve is started, and not by a process that runs. */
export function isReadAtStart (key: string): boolean {
  return atStart.some(path => key === path.join('.') || key.startsWith(`${path.join('.')}.`))
}

/** Refuses to go over to the embedded node, which is begun with varve alone; and from it, where what is kept of its chain would be taken for another's. */
export function requireNodes (before: Config, now: Config, mayLeaveSandbox: boolean): void {
  const [had, has] = [before.upstreams.length > 0, now.upstreams.length > 0]
  if (had && !has) throw new ConfigError([{ path: 'upstreams', message: 'expected a node: the embedded one is begun with varve, when it is started without any' }])
  if (!had && has && !mayLeaveSandbox) throw new ConfigError([{ path: 'upstreams', message: 'expected none: the embedded node is left when varve is started anew' }])
}

function valueAt (config: Config, path: readonly string[]): unknown {
  return path.reduce<unknown>((at, key) => (at as Readonly<Record<string, unknown>>)[key], config)
}
