import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { maskSecrets } from '../config/secrets.js'
import { warningsOf } from '../config/warnings.js'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'

/**
 * Prints the effective settings, and warnings apart from them; a mistake is thrown, and printed where all errors are.
 */
export function check (file: string | undefined, io: Io): ExitCode {
  const { config, fromFiles } = loadConfig(io.environment, { config: file }, { listens: true })
  io.out(stringify(maskSecrets(config, fromFiles)))
  for (const { key, message } of warningsOf(config)) io.err(`varve: warning: ${key}: ${message}\n`)
  return exitCodes.ok
}
