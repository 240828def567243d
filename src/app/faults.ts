import { inspect } from 'node:util'
import { type Logger } from 'pino'
import { type Masking } from '../config/masking.js'
import { type Metrics } from '../metrics/metrics.js'
import { within } from '../within.js'
import { type Patience } from '../workers/messages.js'
import { exitCodes, type Io, type Signal } from './io.js'

/** What a fault befalls, as far as it has come. */
export interface Faulty {
  readonly metrics: () => Pick<Metrics, 'process'> | undefined
  /** Answers what is under way, and ends. */
  readonly stop: (patience: Patience) => Promise<void>
}

// How a system tells of a process that a signal has ended.
const signalCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const
// A terminal and npm, or timeout(1), tell of one Ctrl-C each by itself: what comes twice at a time was said once, and
// nothing is said of it before that is over.
const oneWordMs = 50
// A process whose state is in doubt lets what is under way end, but not for long: its answers are in doubt too.
const lastPatience = { drainMs: 0, graceMs: 1000, lastMs: 500 }
const lastMs = 3000

/**
 * Resolves with the first signal to stop; a second one ends the process at once, however far the stop, or the start,
 * has come.
 */
export async function toldToStop (io: Io, now: () => number): Promise<Signal> {
  return await new Promise(resolve => {
    let firstAtMs: number | undefined
    const hear = (signal: Signal): void => {
      if (firstAtMs === undefined) {
        firstAtMs = now()
        setTimeout(resolve, oneWordMs, signal)
      } else if (now() - firstAtMs >= oneWordMs) io.exit(signalCodes[signal])
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      io.onSignal(signal, () => {
        hear(signal)
      })
    }
    // Who has lost the terminal that it was started from has nobody left; else it is how a process is told to read its
    // configuration anew.
    io.onSignal('SIGHUP', () => {
      if (io.hasLostTerminal()) hear('SIGHUP')
    })
  })
}

/**
 * Goes on after a promise that has failed for nobody: whoever waits for another is not concerned. After an error that
 * nobody caught any part may be half done: what is under way has a moment to end, and then the process does.
 */
export function takeCareOfFaults (io: Io, log: Logger, masking: Masking, faulty: Faulty): void {
  let isEnding = false
  io.onFault((fault, error) => {
    faulty.metrics()?.process.unhandled(fault)
    const err = errorOf(error)
    if (fault === 'rejection') return log.error({ err }, 'something failed that nobody waited for: varve goes on')
    if (isEnding) return
    isEnding = true
    log.fatal({ err }, 'an error that nobody caught leaves the state of this process in doubt: it ends')
    io.err(`varve: ends, since an error that nobody caught leaves its state in doubt: ${masking.mask(err.message)}\n`)
    within(lastMs, faulty.stop(lastPatience)).catch(() => {}).finally(() => {
      io.exit(exitCodes.failed)
    })
  })
}

// What is thrown may be anything: even to look at it may throw.
function errorOf (thrown: unknown): Error {
  try {
    if (thrown instanceof Error && typeof thrown.message === 'string') return thrown
    return new Error(typeof thrown === 'string' ? thrown : inspect(thrown))
  } catch {
    return new Error('what was thrown cannot be told')
  }
}
