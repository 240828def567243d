import { type Mistake } from './config-error.js'
import { nearestOf } from './nearest-name.js'

/** The environment, passed in so that nothing else reads it. */
export type Environment = Readonly<Record<string, string | undefined>>

/** Every variable that varve itself reads; `varve warm` and `varve purge` send the last two. */
export const knownVariables = [
  'VARVE_CONFIG',
  'VARVE_SANDBOX',
  'VARVE_UPSTREAM',
  'VARVE_LISTEN',
  'VARVE_ADMIN',
  'VARVE_DISK',
  'VARVE_REDIS',
  'VARVE_WORKERS',
  'VARVE_LOG_LEVEL',
  'VARVE_CLIENT_KEY',
  'VARVE_ADMIN_TOKEN'
] as const

/** Variables and flags that override a key of the file. */
export const overrides = [
  { variable: 'VARVE_UPSTREAM', flag: 'upstream', path: ['upstreams'] },
  { variable: 'VARVE_LISTEN', flag: 'listen', path: ['listen'] },
  { variable: 'VARVE_ADMIN', flag: 'admin', path: ['admin', 'listen'] },
  { variable: 'VARVE_DISK', flag: 'disk', path: ['cache', 'disk', 'path'] },
  { variable: 'VARVE_REDIS', flag: 'redis', path: ['cache', 'redis', 'url'] },
  { variable: 'VARVE_WORKERS', flag: 'workers', path: ['workers'] },
  { variable: 'VARVE_LOG_LEVEL', flag: 'log-level', path: ['log', 'level'] }
] as const

// Kubernetes sets these in every container of a namespace that has a Service called varve or varve-*.
const kubernetesServiceVariables = [
  /^VARVE_(?:[A-Z0-9_]*_)?SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)$/,
  /^VARVE_(?:[A-Z0-9_]*_)?PORT(?:_[0-9]+_(?:TCP|UDP)(?:_[A-Z]+)?)?$/
]

/** Rejects each VARVE_* variable that nothing reads: a mistyped name would silently leave its key at the default. */
export function unknownVariables (environment: Environment, referredTo: ReadonlySet<string>): Mistake[] {
  const isKnown = (name: string): boolean =>
    (knownVariables as readonly string[]).includes(name) || referredTo.has(name) ||
    kubernetesServiceVariables.some(pattern => pattern.test(name))
  const isSet = (name: string): boolean => name.startsWith('VARVE_') && environment[name] !== undefined
  return Object.keys(environment).filter(name => isSet(name) && !isKnown(name)).map(name => ({
    path: name.replace(/[^A-Za-z0-9_]/g, '?').slice(0, 64),
    message: `unknown environment variable; the nearest known name is ${nearestOf(name, knownVariables)}: ` +
      'rename the variable, or unset it'
  }))
}

/** Parses a switch in the environment; undefined if the text means neither on nor off. */
export function readSwitch (text: string | undefined): boolean | undefined {
  if (text === undefined || text === '' || text === '0' || text === 'false') return false
  return text === '1' || text === 'true' ? true : undefined
}
