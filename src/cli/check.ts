import { stringify } from 'yaml'
import { loadConfig } from '../config/load.js'
import { withoutEffect } from '../config/not-yet.js'
import { maskSecrets } from '../config/secrets.js'
import { type ExitCode, exitCodes, type Io } from './io.js'

/** Prints the effective settings; a mistake is thrown, and printed where all errors are. */
export function check (file: string | undefined, io: Io): ExitCode {
  const { config, given, fromFiles } = loadConfig(io.environment, { config: file })
  io.out(stringify(maskSecrets(config, fromFiles)))
  for (const path of withoutEffect(given)) io.out(`# ${path} has no effect yet\n`)
  return exitCodes.ok
}
