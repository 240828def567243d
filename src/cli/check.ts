import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { maskSecrets } from '../config/secrets.js'
import { warningsOf } from '../config/warnings.js'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'

/** Prints the effective settings, and warnings separately; throws on configuration errors. */
export function check (file: string | undefined, io: Io): ExitCode {
  const { config, fromFiles } = loadConfig(io.environment, { config: file }, { opensListeners: true })
  io.out(stringify(maskSecrets(config, fromFiles)))
  for (const { key, message } of warningsOf(config)) io.err(`varve: warning: ${key}: ${message}\n`)
  return exitCodes.ok
}
