import { type FastifyInstance } from 'fastify'
import { type Config } from '../config/schema.js'
import { type DrainFlag } from '../http/listener.js'
import { type ShutdownDeadlines } from '../peers/messages.js'

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
