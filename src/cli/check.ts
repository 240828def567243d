import { stringify } from 'yaml'
import { ConfigError } from '../config/config-error.js'
import { type LoadedConfig, loadConfig } from '../config/load.js'
import { maskSecrets, SecretMasker } from '../config/secrets.js'
import { warningsOf } from '../config/start-checks.js'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'
import { inColumns } from './format.js'
import { type OnlineFinding } from './online-check.js'

/** Flags of `check`. */
export interface CheckFlags {
  readonly config?: string
  readonly online?: boolean
  readonly json?: boolean
  readonly 'allow-missing-secrets'?: boolean
}

/** Prints the effective settings, and warnings separately; throws on configuration errors unless they go to JSON. */
export function check (
  file: string | undefined,
  flags: CheckFlags,
  io: Io
): ExitCode | Promise<ExitCode> {
  const loaded = load(file, flags, io)
  if ('mistakes' in loaded) {
    printJson(io, { valid: false, ...loaded })
    return exitCodes.misused
  }
  if (flags.online !== true) return print(loaded, undefined, flags, io)
  return findingsOf(loaded).then(findings => print(loaded, findings, flags, io))
}

function load (
  file: string | undefined,
  { json, 'allow-missing-secrets': allowsMissingSecrets = false }: CheckFlags,
  io: Io
): LoadedConfig | { readonly file: string | undefined, readonly mistakes: readonly object[] } {
  try {
    return loadConfig(io.environment, { config: file }, { isForServe: true, allowsMissingSecrets })
  } catch (error) {
    if (json !== true || !(error instanceof ConfigError)) throw error
    return {
      file: error.file,
      mistakes: error.mistakes.map(({ path, place, ...rest }) => ({ key: path || undefined, ...rest, ...place }))
    }
  }
}

function print (
  { config, missingSecrets }: LoadedConfig,
  findings: readonly OnlineFinding[] | undefined,
  { json }: CheckFlags,
  io: Io
): ExitCode {
  const shown = maskSecrets(config, missingSecrets)
  const message = 'the secret is missing, which --allow-missing-secrets accepts'
  const warnings = [...warningsOf(config), ...missingSecrets.map(key => ({ key, message }))]
  if (json === true) printJson(io, { valid: true, config: shown, warnings, online: findings })
  else {
    io.out(stringify(shown))
    for (const { key, message } of warnings) io.err(`varve: warning: ${key}: ${message}\n`)
    if (findings !== undefined) io.out(tableOf(findings))
  }
  return findings?.some(({ problems }) => problems.length > 0) === true ? exitCodes.failed : exitCodes.ok
}

function printJson (io: Io, value: object): void {
  io.out(`${JSON.stringify(value, null, 2)}\n`)
}

async function findingsOf ({ config }: LoadedConfig): Promise<readonly OnlineFinding[]> {
  const { checkOnline } = await import('./online-check.js')
  const now = (): number => performance.now()
  const findings = await checkOnline(config, { now, wallClockMs: () => performance.timeOrigin + now() })
  // A library may quote a URL or a header with credentials.
  const masker = new SecretMasker(config)
  return findings.map(finding => ({ ...finding, problems: finding.problems.map(text => masker.mask(text)) }))
}

// Prints comments, so that the whole output stays a valid configuration.
function tableOf (findings: readonly OnlineFinding[]): string {
  if (findings.length === 0) return '\n# online: there is nothing to contact\n'
  const rows = findings.map(({ what, name, problems, facts }) => {
    const shownFacts = Object.entries(facts).map(([fact, value]) => `${fact} ${value}`).join(', ')
    const texts = [...problems, shownFacts].filter(text => text !== '')
    return [what, name, problems.length === 0 ? 'ok' : 'PROBLEM', texts.join('; ')]
  })
  return `\n# online:\n${inColumns(rows).map(line => `#   ${line}\n`).join('')}`
}
