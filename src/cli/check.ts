import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { maskSecrets } from '../config/secrets.js'
import { type ExitCode, exitCodes, type Io } from './io.js'

/** Prints the effective settings; a mistake is thrown, and printed where all errors are. */
export function check (file: string | undefined, io: Io): ExitCode {
  const { config, fromFiles } = loadConfig(io.environment, { config: file })
  io.out(stringify(maskSecrets(config, fromFiles)))
  return exitCodes.ok
}
