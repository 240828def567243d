import { type FastifyInstance } from 'fastify'
import { type Drain } from '../server/drain.js'

/** How patient a stop is; all of it together ends within ten seconds. */
export interface Patience {
  /** How long clients with kept connections are told that these close, before the listener goes. */
  readonly drainMs?: number
  /** How long what is under way by then may take, before its readers are told that no node could answer. */
  readonly graceMs?: number
  /** How long those words may take to reach them. */
  readonly lastMs?: number
}

/** What stops with the listener. */
export interface Ending {
  /** Gives up what is being asked of a node, so that whoever waits for it is answered. */
  readonly abandon: () => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * Stops without losing a request: first each answer closes its own connection while new ones are still taken, so that no
 * client is writing on a connection at the moment it is closed; then the listener goes and what is under way is finished,
 * or refused in words when it takes too long.
 */
export async function stopGracefully (app: FastifyInstance, drain: Drain, ending: Ending, { drainMs = 1000, graceMs = 6000, lastMs = 1000 }: Patience = {}): Promise<void> {
  drain.begin()
  await new Promise(resolve => { setTimeout(resolve, drainMs) })
  const timers = [
    setTimeout(() => { ending.abandon().catch(() => {}) }, graceMs),
    setTimeout(() => { app.server.closeAllConnections() }, graceMs + lastMs)
  ]
  await app.close()
  timers.forEach(clearTimeout)
  await ending.close()
}
