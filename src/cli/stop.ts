import { type FastifyInstance } from 'fastify'
import { type Drain } from '../server/drain.js'

/** How patient a stop is. */
export interface Patience {
  /** How long clients with kept connections are told that these close, before the listener goes. */
  readonly drainMs?: number
  /** How long what is under way by then may take; with both, a stop ends within ten seconds. */
  readonly graceMs?: number
}

/**
 * Stops without losing a request: first each answer closes its own connection while new ones are still taken, so that no
 * client is writing on a connection at the moment it is closed; then the listener goes and what is under way is finished.
 */
export async function stopGracefully (app: FastifyInstance, drain: Drain, close: () => Promise<void>, { drainMs = 1000, graceMs = 7000 }: Patience = {}): Promise<void> {
  drain.begin()
  await new Promise(resolve => { setTimeout(resolve, drainMs) })
  const cut = setTimeout(() => { app.server.closeAllConnections() }, graceMs)
  await app.close()
  clearTimeout(cut)
  await close()
}
