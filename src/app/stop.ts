import { inspect } from 'node:util'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { type DrainFlag } from '../http/listener.js'
import { type ShutdownDeadlines } from '../peers/messages.js'
import { type SecretMasker } from '../config/secrets.js'
import { type Metrics } from '../metrics/metrics.js'
import { withTimeout } from '../with-timeout.js'
import { exitCodes, type Io, type ProcessSignal } from './io.js'

/** Shutdown steps besides closing the listener. */
export interface ShutdownSteps {
  /** Cancels upstream requests, so that waiting clients get an error response. */
  readonly cancelRequests: () => Promise<void>
  readonly close: () => Promise<void>
}

/** Returns the time in which a load balancer can react to a stop. */
export function drainMsOf ({ shutdown }: Config): number {
  return shutdown.drainSeconds * 1000
}

/**
 * Stops without losing a request: responses close their connections during the drain, then the listener closes. Slow
 * requests get an error response.
 */
export async function stopGracefully (
  app: FastifyInstance,
  drain: DrainFlag,
  steps: ShutdownSteps,
  { drainMs = 0, graceMs = 6000, flushMs = 1000 }: ShutdownDeadlines = {}
): Promise<void> {
  drain.isDraining = true
  await new Promise(resolve => {
    setTimeout(resolve, drainMs)
  })
  const timers = [
    setTimeout(() => {
      steps.cancelRequests().catch(() => {})
    }, graceMs),
    setTimeout(() => {
      app.server.closeAllConnections()
    }, graceMs + flushMs)
  ]
  await app.close()
  timers.forEach(clearTimeout)
  await steps.close()
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
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      io.onSignal(signal, () => {
        onStopSignal(signal)
      })
    }
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
    withTimeout(maxExitMs, target.stop(faultDeadlines)).catch(() => {}).finally(() => {
      io.exit(exitCodes.failed)
    })
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
