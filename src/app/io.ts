import { type Readable } from 'node:stream'
import { readFileSync } from 'node:fs'
import { type Environment } from '../config/load.js'
import { type Program } from '../peers/worker-pool.js'

/** Unhandled promise rejection or uncaught exception. */
export type ProcessFault = 'rejection' | 'exception'

/** Signals that a process handles. */
export type ProcessSignal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

/** Process access of a command, passed in so that tests can replace it. */
export interface Io {
  readonly environment: Environment
  /** Standard input. */
  readonly in: () => Readable
  /** Writes to standard output; `done` runs after the write completed or failed. */
  readonly out: (text: string, done?: (error?: Error | null) => void) => void
  /** Bytes written to standard output that the reader has not consumed yet. */
  readonly bufferedBytes: () => number
  readonly err: (text: string) => void
  readonly isTerminal: boolean
  readonly onSignal: (signal: ProcessSignal, listener: () => void) => void
  /** Replaces the default handling from the first call on: faults no longer end the process. */
  readonly onFault: (listener: (fault: ProcessFault, error: unknown) => void) => void
  readonly exit: (code: number) => void
  /** True if the process started at a terminal that is gone now. */
  readonly hasLostTerminal: () => boolean
  /** Program to start worker processes with. */
  readonly program: Program
}

/** Exit codes of every command. */
export const exitCodes = { ok: 0, failed: 1, misused: 2 } as const

/** One of the exit codes. */
export type ExitCode = typeof exitCodes[keyof typeof exitCodes]

/** Error for a command line that varve does not fully understand. */
export class UsageError extends Error {}

/** Release number, and where the documentation of this program is. */
export interface ProgramInfo {
  readonly version: string
  readonly docs: string
}

/** Reads release number and home page from package.json. */
export function programInfo (): ProgramInfo {
  const { version, homepage } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  ) as { version: string, homepage: string }
  return { version, docs: new URL('docs/', homepage).href }
}

/** Reads the release number from package.json. */
export function versionOfProgram (): string {
  return programInfo().version
}
