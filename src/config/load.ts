import { z } from 'zod'
import { ConfigError, type Mistake } from './config-error.js'
import { isLoopback } from './ip-networks.js'
import { mistakesFromIssues } from './mistakes.js'
import { type ConfigFile, readYaml, type ConfigTree } from './read-yaml.js'
import { resolveReferences } from './references.js'
import { clientKeysSchema, type Config, configSchema } from './schema.js'
import { shownPath } from './secrets.js'
import { startMistakes } from './start-checks.js'
import { convertUnitsInTree } from './units.js'
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

// Kubernetes sets variables of these forms in every container of a namespace that has a Service called varve or
// varve-*.
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

/** Configuration that a program gives: the keys of the file, durations and sizes also as texts with a unit. */
export type VarveConfig = WithUnits<z.input<typeof configSchema>>

type DurationKey = 'ms' | `${string}${'Ms' | 'Seconds'}`
type SizeKey = `${string}${'Kb' | 'Mb' | 'Gb'}`

/** Text with a unit, such as 250ms. */
export type Duration = `${number}${'' | ' '}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** Text with a unit, such as 2GB. */
export type Size = `${number}${'' | ' '}${'B' | `${'K' | 'M' | 'G' | 'T'}${'' | 'i'}B`}`
type WithUnits<T> = T extends readonly unknown[] ? { readonly [At in keyof T]: WithUnits<T[At]> } :
  T extends object ? {
      readonly [Key in keyof T]: Key extends DurationKey ? T[Key] | Duration :
        Key extends SizeKey ? T[Key] | Size :
        WithUnits<T[Key]>
    } :
  T

/** Settings from the command line, as typed. */
export type Flags =
  & { readonly [Name in 'config' | Exclude<typeof overrides[number]['flag'], 'upstream'>]?: string | undefined }
  & { readonly sandbox?: boolean | undefined, readonly upstream?: string[] | undefined }

/** Checks that a command needs beyond the validity of each key. */
export interface ConfigRequirements {
  /** Accepts secrets whose variable or file is missing, to check a configuration on a machine without them. */
  readonly allowsMissingSecrets?: boolean
  /**
   * Rejects what `serve` cannot start with, so that `check` rejects the same: no upstream unless the sandbox is
   * requested by name, varve's own listeners as upstreams, unusable TLS files, and more memory than there is.
   */
  readonly isForServe?: boolean
}

/** Valid configuration, the secrets that it lacks, and if it is for the sandbox. */
export interface LoadedConfig {
  readonly config: Config
  /** Dotted paths of secrets that are missing and allowed to be. */
  readonly missingSecrets: readonly string[]
  /** True if a flag or the environment requests the sandbox (law 14: made-up data is never served by accident). */
  readonly isSandbox: boolean
}

/** Loads the configuration: flag over environment over file over default. Throws a ConfigError with every mistake. */
export function loadConfig (environment: Environment, flags: Flags, options: ConfigRequirements = {}): LoadedConfig {
  const file = flags.config ?? (environment['VARVE_CONFIG'] || undefined)
  const { tree: unresolvedTree, placeOf }: ConfigFile = file === undefined
    ? { tree: {}, placeOf: () => undefined }
    : readYaml(file)
  const { value, fromFiles, missingSecrets, ...resolved } = resolveReferences(
    unresolvedTree,
    environment,
    options.allowsMissingSecrets
  )
  const tree = value as ConfigTree
  const texts = new Map(resolved.texts)
  const sources = new Map<string, string>()
  const faults = resolved.badReferences.map(({ path, message }) => ({
    path: shownPath(path),
    message,
    place: placeOf(path),
    isOf: path.join('.')
  }))
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
  mistakes.push(...applyOtelVariables(tree, environment, sources, texts))
  const isSandbox = flags.sandbox ?? readSwitch(environment['VARVE_SANDBOX'])
  if (isSandbox === undefined) mistakes.push({ path: 'VARVE_SANDBOX', message: 'expected 1 or 0' })
  mistakes.push(...upstreamSourceMistakes(tree, sources, isSandbox, flags, options))
  convertUnitsInTree(tree)
  const replaced = new Set([...resolved.texts.keys(), ...fromFiles])
  const config = validate({ tree, placeOf, replaced }, texts, sources, [...faults, ...mistakes], file)
  const atStart = options.isForServe === true ? startMistakes(config) : []
  if (atStart.length > 0) {
    throw new ConfigError(
      atStart.map(one => ({
        ...one,
        path: pathWithSource(one.path, sources),
        place: sourceOf(one.path, sources) === undefined ? placeOf(one.path.split('.')) : undefined
      })),
      file
    )
  }
  return {
    config: { ...withProxies(withKeysFile(config), environment), ...(fromFiles.length > 0 && { fromFiles }) },
    missingSecrets,
    isSandbox: isSandbox === true
  }
}

/** Validates the configuration that a program gives; its texts are taken as they are, without references. */
export function configFromObject (given: unknown): Config {
  const tree = structuredClone(given) as ConfigTree
  convertUnitsInTree(tree)
  const config = validate({ tree, placeOf: () => undefined, replaced: new Set() }, new Map(), new Map(), [], undefined)
  const mistakes = config.upstreams.length > 0
    ? startMistakes(config)
    : [{ path: 'upstreams', message: 'expected the URL of a full node, such as [{ url: \'http://127.0.0.1:8081\' }]' }]
  if (mistakes.length > 0) throw new ConfigError(mistakes)
  return withKeysFile(config)
}

/** Adds the keys of `clients.keysFile`; throws a ConfigError with every mistake in it. */
function withKeysFile (config: Config): Config {
  const { clients } = config
  if (clients.keysFile === null) return config
  const file = readYaml(clients.keysFile)
  // Checks the keys under their path in the configuration, by which messages recognise secrets.
  const tree = { clients: file.tree }
  const parsed = z.strictObject({ clients: z.strictObject({ keys: clientKeysSchema }) }).safeParse(tree)
  if (!parsed.success) {
    const placeOf: ConfigFile['placeOf'] = ([, ...path], of) => file.placeOf(path, of)
    throw new ConfigError(mistakesFromIssues(parsed.error.issues, tree, new Map(), { placeOf }), clients.keysFile)
  }
  const keys = [...clients.keys, ...parsed.data.clients.keys]
  if (!clientKeysSchema.safeParse(keys).success) {
    const message = 'expected names and keys that clients.keys of the configuration does not have'
    throw new ConfigError([{ path: 'keys', message }], clients.keysFile)
  }
  return { ...config, clients: { ...clients, keys } }
}

/** Applies the variables of OpenTelemetry that name a collector; returns their mistakes. */
function applyOtelVariables (
  tree: ConfigTree,
  environment: Environment,
  sources: Map<string, string>,
  texts: Map<string, string>
): Mistake[] {
  const mistakes: Mistake[] = []
  const apply = (name: string, key: string, valueOf: (text: string) => string | object | undefined): void => {
    const text = environment[name] ?? ''
    const value = text === '' ? undefined : valueOf(text)
    if (value === undefined) return
    setAt(tree, ['tracing', key], value)
    sources.set(`tracing.${key}`, name)
    if (typeof value === 'string') texts.set(`tracing.${key}`, value)
    else for (const inner of Object.keys(value)) sources.set(`tracing.${key}.${inner}`, name)
  }
  // The variable for traces overrides the one for all signals.
  for (const signal of ['', '_TRACES']) {
    apply(`OTEL_EXPORTER_OTLP${signal}_ENDPOINT`, 'otlpUrl', text => text)
    apply(`OTEL_EXPORTER_OTLP${signal}_HEADERS`, 'headers', headersIn)
  }
  apply('OTEL_SERVICE_NAME', 'serviceName', text => text)
  apply('OTEL_TRACES_SAMPLER', 'sample', text => {
    const sampler = text.replace(/^parentbased_/, '')
    if (sampler === 'traceidratio') return environment['OTEL_TRACES_SAMPLER_ARG'] || '1'
    if (sampler !== 'always_on' && sampler !== 'always_off') {
      mistakes.push({
        path: 'OTEL_TRACES_SAMPLER',
        message: 'expected always_on, always_off or traceidratio, also with parentbased_ in front'
      })
    }
    return sampler === 'always_on' ? '1' : '0'
  })
  const isOff = environment['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' ||
    /always_off$/.test(environment['OTEL_TRACES_SAMPLER'] ?? '')
  if (isOff) setAt(tree, ['tracing', 'otlpUrl'], null)
  return mistakes
}

/** Reads NAME=VALUE pairs with percent-encoded values; a pair without a value is left for the schema to reject. */
function headersIn (text: string): Record<string, string> {
  return Object.fromEntries(
    text.split(',').map(pair => {
      const [name = '', ...value] = pair.split('=')
      return [name.trim().toLowerCase(), decoded(value.join('=').trim())]
    })
  )
}

function decoded (text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const unresolved = 'expected no ${: references work only in the configuration file; ' +
  'give the value itself, or set the key in a file'

/** Requires one source of data: upstreams, or the sandbox requested by name, and never both. */
function upstreamSourceMistakes (
  { upstreams }: ConfigTree,
  sources: ReadonlyMap<string, string>,
  isSandbox: boolean | undefined,
  flags: Flags,
  { isForServe }: ConfigRequirements
): Mistake[] {
  const hasUpstreams = Array.isArray(upstreams) ? upstreams.length > 0 : upstreams !== undefined
  const setBy = flags.sandbox === true ? '--sandbox' : 'VARVE_SANDBOX'
  if (isSandbox === true && hasUpstreams) {
    return [{
      path: pathWithSource('upstreams', sources),
      message: `expected none together with ${setBy}, which serves made-up data: remove the upstreams, or ${setBy}`
    }]
  }
  if (isForServe !== true || hasUpstreams || isSandbox !== false) return []
  return [{
    path: 'upstreams',
    message: 'expected the URL of a full node: give it with --upstream URL ' +
      '(or VARVE_UPSTREAM, or upstreams in a file); for made-up data give --sandbox (or VARVE_SANDBOX=1)'
  }]
}

function pathWithSource (path: string, sources: ReadonlyMap<string, string>): string {
  const source = sourceOf(path, sources)
  return source === undefined ? path : `${path} (from ${source})`
}

function sourceOf (path: string, sources: ReadonlyMap<string, string>): string | undefined {
  return sources.get(path) ?? sources.get(path.split('.', 1).join(''))
}

/** Validates the tree; converts texts from the environment or a flag to the type that their key expects. */
function validate (
  { tree, placeOf, replaced }: ConfigFile & { readonly replaced: ReadonlySet<string> },
  texts: Map<string, string>,
  sources: Map<string, string>,
  earlier: ReadonlyArray<Mistake & { readonly isOf?: string }>,
  file: string | undefined
): Config {
  const firstParse = configSchema.safeParse(tree)
  for (const issue of firstParse.error?.issues ?? []) {
    const text = texts.get(issue.path.join('.'))
    if (issue.code !== 'invalid_type' || text === undefined || issue.expected === 'string') continue
    setAt(tree, issue.path.map(String), scalarOf(text))
  }
  const secondParse = configSchema.safeParse(tree)
  if (secondParse.success && earlier.length === 0) return secondParse.data
  // An unresolved reference counts once, so the mistakes that follow from it are left out.
  const issues = (secondParse.error?.issues ?? []).filter(issue =>
    !earlier.some(({ isOf }) => isOf === issue.path.join('.'))
  )
  throw new ConfigError([
    ...earlier.map(({ path, message, place }) => ({ path, message, place })),
    ...mistakesFromIssues(issues, tree, sources, {
      placeOf,
      isReplaced: path => replaced.has(path.join('.'))
    })
  ], file)
}

/** Converts a text to a number, a boolean or null; any other text is returned unchanged. */
function scalarOf (text: string): unknown {
  if (text === '' || text === 'null') return null
  if (text === 'true' || text === 'false') return text === 'true'
  return /^[-+]?[0-9]+(?:\.[0-9]+)?$/.test(text) ? Number(text) : text
}

function urlsOf (value: string | readonly string[]): { url: string }[] {
  const urls = typeof value === 'string' ? value.split(',') : value
  return urls.map(url => ({ url: url.trim() }))
}

function setAt (tree: ConfigTree, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    tree[key] = value
    return
  }
  const next = tree[key] ?? (tree[key] = {})
  // A value that is no map stays, so that validation rejects it.
  if (typeof next === 'object') setAt(next as ConfigTree, rest, value)
}

/** Sets `proxy` of each upstream that leaves it open: true if the environment names a proxy for its URL. */
function withProxies (config: Config, environment: Environment): Config {
  const upstreams = config.upstreams.map(upstream => ({
    ...upstream,
    proxy: upstream.proxy ?? isProxied(upstream.url, environment)
  }))
  return { ...config, upstreams }
}

// The HTTP library reads the same variables, and NO_PROXY. This machine itself is never behind a proxy.
function isProxied (url: string, environment: Environment): boolean {
  const { protocol, hostname } = new URL(url)
  const names = protocol === 'https:' ? ['https_proxy', 'http_proxy'] : ['http_proxy']
  return !isLoopback(hostname.replace(/^\[|\]$/g, '')) &&
    names.flatMap(name => [name, name.toUpperCase()]).some(name => (environment[name] ?? '') !== '')
}
