import { type Environment } from '../config/load.js'
import { type Program } from '../workers/crew.js'

/** What a command may touch of the process, passed in so that a test can stand in for it. */
export interface Io {
  readonly environment: Environment
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly isTerminal: boolean
  readonly onSignal: (signal: 'SIGINT' | 'SIGTERM' | 'SIGHUP', listener: () => void) => void
  /** Whether it was begun at a terminal that is gone now. */
  readonly hasLostTerminal: () => boolean
  /** This very program, for processes of its own. */
  readonly program: Program
}

/** The exit codes of every command. */
export const exitCodes = { ok: 0, failed: 1, misused: 2 } as const

/** One of them. */
export type ExitCode = typeof exitCodes[keyof typeof exitCodes]

/** A command line that varve does not wholly understand. */
export class UsageError extends Error {}
