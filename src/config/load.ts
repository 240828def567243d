import { ConfigError, type Mistake, mistakesIn } from './mistakes.js'
import { ownAddressMistakes } from './own-address.js'
import { readTree, type Tree } from './read-tree.js'
import { resolveReferences } from './references.js'
import { type Config, configSchema } from './schema.js'
import { shownPath } from './secrets.js'
import { type Environment, isSwitchedOn, unknownVariables } from './variables.js'

export { type Environment } from './variables.js'

/** What the command line may set; strings as they were typed. */
export interface Flags {
  readonly config?: string | undefined
  readonly sandbox?: boolean | undefined
  readonly upstream?: string[] | undefined
  readonly listen?: string | undefined
  readonly admin?: string | undefined
  readonly redis?: string | undefined
  readonly workers?: string | undefined
  readonly 'log-level'?: string | undefined
}

/** What a command does with a configuration, and so what must be right beyond each key. */
export interface Use {
  /** Opens the listeners, which thus are no upstreams. */
  readonly listens?: boolean
  /** Cannot do without an upstream, or the sandbox asked for by name. */
  readonly fetches?: boolean
}

/** A configuration, and what of it is never shown. */
export interface Loaded {
  readonly config: Config
  /** Dotted paths of every key whose value a file of its own has a part in, which is never shown. */
  readonly fromFiles: readonly string[]
  /** Whether the sandbox was asked for by flag or environment (law 14: made-up data is never served by accident). */
  readonly isSandbox: boolean
}

/** What the environment and the command line may set beside the file, and the key that each sets. */
export const overrides = [
  { variable: 'VARVE_UPSTREAM', flag: 'upstream', path: ['upstreams'] },
  { variable: 'VARVE_LISTEN', flag: 'listen', path: ['listen'] },
  { variable: 'VARVE_ADMIN', flag: 'admin', path: ['admin', 'listen'] },
  { variable: 'VARVE_REDIS', flag: 'redis', path: ['cache', 'redis', 'url'] },
  { variable: 'VARVE_WORKERS', flag: 'workers', path: ['workers'] },
  { variable: 'VARVE_LOG_LEVEL', flag: 'log-level', path: ['log', 'level'] }
] as const

/** Loads the configuration: flag over environment over file over default. Throws a ConfigError with every mistake. */
export function loadConfig (environment: Environment, flags: Flags, use: Use = {}): Loaded {
  const file = flags.config ?? (environment['VARVE_CONFIG'] || undefined)
  const { value, fromFiles, ...resolved } = resolveReferences(file === undefined ? {} : readTree(file), environment)
  const tree = value as Tree
  const texts = new Map(resolved.texts)
  const sources = new Map<string, string>()
  const faults = resolved.faults.map(({ path, message }) => ({ path: shownPath(path), message, isOf: path.join('.') }))
  const mistakes = unknownVariables(environment, resolved.variables)
  for (const { variable, flag, path } of overrides) {
    const fromFlag = flags[flag]
    const value = fromFlag ?? (environment[variable] || undefined)
    if (value === undefined) continue
    const source = fromFlag === undefined ? variable : `--${flag}`
    sources.set(path.join('.'), source)
    if (/\$\{/.test(String(value))) mistakes.push({ path: `${path.join('.')} (from ${source})`, message: unresolved })
    setAt(tree, path, flag === 'upstream' ? urlsOf(value) : value)
    if (typeof value === 'string') texts.set(path.join('.'), value)
  }
  const isSandbox = flags.sandbox ?? isSwitchedOn(environment['VARVE_SANDBOX'])
  if (isSandbox === undefined) mistakes.push({ path: 'VARVE_SANDBOX', message: 'expected 1 or 0' })
  mistakes.push(...sourceMistakes(tree, sources, isSandbox, flags, use))
  const config = validate(tree, texts, sources, [...faults, ...mistakes], file)
  const own = use.listens === true ? ownAddressMistakes(config) : []
  if (own.length > 0) throw new ConfigError(own.map(one => ({ ...one, path: placeOf(one.path, sources) })), file)
  return { config, fromFiles, isSandbox: isSandbox === true }
}

const unresolved = 'expected no ${: references are replaced in the configuration file alone; ' +
  'give the value itself, or name the key in a file'

/** Where data comes from: upstreams, or the sandbox asked for by name, and never both. */
function sourceMistakes (
  { upstreams }: Tree,
  sources: ReadonlyMap<string, string>,
  isSandbox: boolean | undefined,
  flags: Flags,
  { fetches }: Use
): Mistake[] {
  const hasUpstreams = Array.isArray(upstreams) ? upstreams.length > 0 : upstreams !== undefined
  const asked = flags.sandbox === true ? '--sandbox' : 'VARVE_SANDBOX'
  if (isSandbox === true && hasUpstreams) {
    return [{
      path: placeOf('upstreams', sources),
      message: `expected none together with ${asked}, which serves made-up data: remove the upstreams, or ${asked}`
    }]
  }
  if (fetches !== true || hasUpstreams || isSandbox !== false) return []
  return [{
    path: 'upstreams',
    message: 'expected the URL of a full node: give it with --upstream URL ' +
      '(or VARVE_UPSTREAM, or upstreams in a file); for made-up data give --sandbox'
  }]
}

function placeOf (path: string, sources: ReadonlyMap<string, string>): string {
  const source = sources.get(path) ?? sources.get(path.split('.', 1).join(''))
  return source === undefined ? path : `${path} (from ${source})`
}

/** Validates; a text from the environment or a flag is read as the number or flag that its key expects. */
function validate (
  tree: Tree,
  texts: Map<string, string>,
  sources: Map<string, string>,
  known: ReadonlyArray<Mistake & { readonly isOf?: string }>,
  file: string | undefined
): Config {
  const first = configSchema.safeParse(tree)
  for (const issue of first.error?.issues ?? []) {
    const text = texts.get(issue.path.join('.'))
    if (issue.code !== 'invalid_type' || text === undefined || issue.expected === 'string') continue
    setAt(tree, issue.path.map(String), scalarOf(text))
  }
  const second = configSchema.safeParse(tree)
  if (second.success && known.length === 0) return second.data
  // What came of a reference that leads nowhere is no second mistake.
  const issues = (second.error?.issues ?? []).filter(issue => !known.some(({ isOf }) => isOf === issue.path.join('.')))
  throw new ConfigError([
    ...known.map(({ path, message }) => ({ path, message })),
    ...mistakesIn(issues, tree, sources)
  ], file)
}

/** What a text means where a number, a flag or nothing is expected. */
function scalarOf (text: string): unknown {
  if (text === '' || text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  return /^[-+]?[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : text
}

function urlsOf (value: string | readonly string[]): { url: string }[] {
  const urls = typeof value === 'string' ? value.split(',') : value
  return urls.map(url => ({ url: url.trim() }))
}

function setAt (tree: Tree, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    tree[key] = value
    return
  }
  const next = tree[key] ?? (tree[key] = {})
  // What is no map stays, and is refused.
  if (typeof next === 'object') setAt(next as Tree, rest, value)
}
