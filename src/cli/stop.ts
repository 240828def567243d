import { type FastifyInstance } from 'fastify'
import { type Drain } from '../server/drain.js'

// Long enough for clients with kept connections to be told that these close, short enough for any supervisor's patience.
const drainMs = 1000
// What is under way by then is cut off: a stop ends within ten seconds.
const graceMs = 8000

/**
 * Stops without losing a request: first each answer closes its own connection while new ones are still taken, so that no
 * client is writing on a connection at the moment it is closed; then the listener goes and what is under way is finished.
 */
export async function stopGracefully (app: FastifyInstance, drain: Drain, close: () => Promise<void>): Promise<void> {
  drain.begin()
  await new Promise(resolve => { setTimeout(resolve, drainMs) })
  const cut = setTimeout(() => { app.server.closeAllConnections() }, graceMs - drainMs)
  await app.close()
  clearTimeout(cut)
  await close()
}
