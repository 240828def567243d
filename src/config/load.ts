import { ConfigError, mistakesIn } from './mistakes.js'
import { readTree, type Tree } from './read-tree.js'
import { type Fault, resolveReferences } from './references.js'
import { type Config, configSchema } from './schema.js'
import { shownPath } from './secrets.js'

/** What the command line may set; strings as they were typed. */
export interface Flags {
  readonly config?: string | undefined
  readonly upstream?: string[] | undefined
  readonly listen?: string | undefined
  readonly admin?: string | undefined
  readonly redis?: string | undefined
  readonly workers?: string | undefined
  readonly 'log-level'?: string | undefined
}

/** The environment, passed in so that nothing else reads it. */
export type Environment = Readonly<Record<string, string | undefined>>

/** A configuration, and what of it is never shown. */
export interface Loaded {
  readonly config: Config
  /** Dotted paths of every key whose value a file of its own has a part in, which is never shown. */
  readonly fromFiles: readonly string[]
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

/** Loads the effective configuration: flag over environment over file over default. Throws a ConfigError with every mistake. */
export function loadConfig (environment: Environment, flags: Flags): Loaded {
  const file = flags.config ?? (environment['VARVE_CONFIG'] || undefined)
  const { value, texts: fromEnvironment, fromFiles, faults } = resolveReferences(file === undefined ? {} : readTree(file), environment)
  const tree = value as Tree
  const texts = new Map(fromEnvironment)
  const sources = new Map<string, string>()
  for (const { variable, flag, path } of overrides) {
    const fromFlag = flags[flag]
    const value = fromFlag ?? (environment[variable] || undefined)
    if (value === undefined) continue
    sources.set(path.join('.'), fromFlag === undefined ? variable : `--${flag}`)
    setAt(tree, path, flag === 'upstream' ? urlsOf(value) : value)
    if (typeof value === 'string') texts.set(path.join('.'), value)
  }
  return { config: validate(tree, texts, sources, faults), fromFiles }
}

/** Validates; a text from the environment or a flag is read as the number or flag that its key expects. */
function validate (tree: Tree, texts: Map<string, string>, sources: Map<string, string>, faults: readonly Fault[]): Config {
  const first = configSchema.safeParse(tree)
  for (const issue of first.error?.issues ?? []) {
    const text = texts.get(issue.path.join('.'))
    if (issue.code !== 'invalid_type' || text === undefined || issue.expected === 'string') continue
    setAt(tree, issue.path.map(String), scalarOf(text))
  }
  const second = configSchema.safeParse(tree)
  if (second.success && faults.length === 0) return second.data
  // What came of a reference that leads nowhere is no second mistake.
  const issues = (second.error?.issues ?? []).filter(issue => !faults.some(({ path }) => path.join('.') === issue.path.join('.')))
  throw new ConfigError([...faults.map(({ path, message }) => ({ path: shownPath(path), message })), ...mistakesIn(issues, tree, sources)])
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
