import { type Readable } from 'node:stream'
import { inspect } from 'node:util'
import { type Logger } from 'pino'
import { readFileSync } from 'node:fs'
import { type Environment } from '../config/load.js'
import { type SecretMasker } from '../config/secrets.js'
import { type Metrics } from '../metrics/metrics.js'
import { type ShutdownDeadlines } from '../peers/messages.js'
import { type Program } from '../peers/worker-pool.js'
import { withTimeout } from '../with-timeout.js'

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

/** Parts that a fault handler uses. */
export interface FaultTarget {
  readonly metrics: Pick<Metrics, 'process'>
  /** Finishes requests in flight within the deadlines, if the start has finished. */
  readonly stop: (deadlines: ShutdownDeadlines) => Promise<void>
}

// Exit codes that shells report for a process ended by a signal: 128 plus the signal number.
const signalCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
// A terminal and npm, or timeout(1), may each forward one Ctrl-C, so a quick second signal counts as a repeat.
const repeatedSignalMs = 200
// After an uncaught exception responses may be wrong, so requests in flight get little time.
const faultDeadlines: ShutdownDeadlines = { drainMs: 0, graceMs: 1000, flushMs: 500 }
const maxExitMs = 3000

/** Resolves with the first stop signal; a second one exits at once, even during start or shutdown. */
export async function waitForStopSignal (io: Io, now: () => number): Promise<ProcessSignal> {
  return await new Promise(resolve => {
    let firstAtMs = Infinity
    const onStopSignal = (signal: ProcessSignal): void => {
      if (firstAtMs === Infinity) {
        firstAtMs = now()
        setTimeout(resolve, repeatedSignalMs, signal)
      } else if (now() - firstAtMs >= repeatedSignalMs) io.exit(signalCodes[signal])
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) io.onSignal(signal, () => onStopSignal(signal))
    // SIGHUP stops a process whose terminal is gone; otherwise it means reload, which `serve` does.
    io.onSignal('SIGHUP', () => {
      if (io.hasLostTerminal()) onStopSignal('SIGHUP')
    })
  })
}

/** Installs the fault policy: an unhandled rejection is logged and ignored; an uncaught exception drains and exits. */
export function installFaultHandlers (io: Io, log: Logger, masker: SecretMasker, target: FaultTarget): void {
  let isEnding = false
  io.onFault((fault, error) => {
    target.metrics.process.unhandled(fault)
    const err = errorOf(error)
    if (fault === 'rejection') return log.error({ err }, 'unhandled rejection: varve continues')
    if (isEnding) return
    isEnding = true
    log.fatal({ err }, 'uncaught exception: the process exits')
    io.err(`varve: uncaught exception, exiting: ${masker.mask(err.message)}\n`)
    withTimeout(maxExitMs, target.stop(faultDeadlines)).catch(() => {}).finally(() => io.exit(exitCodes.failed))
  })
}

// Thrown values can be anything, and even inspecting one may throw.
function errorOf (thrown: unknown): Error {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown
    return new Error(typeof thrown === 'string' ? thrown : inspect(thrown))
  } catch {
    return new Error('the thrown value cannot be printed')
  }
}
