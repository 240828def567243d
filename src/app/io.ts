import { type Readable } from 'node:stream'
import { type Environment } from '../config/load.js'
import { type Program } from '../workers/crew.js'

/**
 * What befalls a process past all that would take care of it: a promise that failed for nobody, or an error that nobody
 * caught.
 */
export type Fault = 'rejection' | 'exception'

/** What a process is told by an operator or its system. */
export type Signal = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

/** What a command may touch of the process, passed in so that a test can stand in for it. */
export interface Io {
  readonly environment: Environment
  /** What is piped in. */
  readonly in: () => Readable
  /** Writes; `done` when that has been taken, or has failed. */
  readonly out: (text: string | Uint8Array, done?: (error?: Error | null) => void) => void
  /** What was written there and has not been taken yet. */
  readonly waitingBytes: () => number
  readonly err: (text: string) => void
  readonly isTerminal: boolean
  readonly onSignal: (signal: Signal, listener: () => void) => void
  /** From the first call on a fault no longer ends the process by itself. */
  readonly onFault: (listener: (fault: Fault, error: unknown) => void) => void
  /** Ends the process at once. */
  readonly exit: (code: number) => void
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
