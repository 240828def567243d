import { readFileSync } from 'node:fs'
import { type ExitCode, exitCodes, type Io } from '../app/io.js'

/** Prints the JSON Schema of the configuration, as the examples of the package name it. */
export function schema (io: Io): ExitCode {
  io.out(readFileSync(new URL('../../config/varve.schema.json', import.meta.url), 'utf8'))
  return exitCodes.ok
}
