import { type FastifyInstance } from 'fastify'
import { type Drain } from '../http/drain.js'
import { type Patience } from '../workers/messages.js'

/** What stops with the listener. */
export interface Ending {
  /** Gives up what is being asked of a node, so that whoever waits for it is answered. */
  readonly abandon: () => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * Stops without losing a request: first each answer closes its own connection while new ones are still taken, so that
 * no client is writing on a connection at the moment it is closed; then the listener goes and what is under way is
 * finished, or refused in words when it takes too long.
 */
export async function stopGracefully (
  app: FastifyInstance,
  drain: Drain,
  ending: Ending,
  { drainMs = 1000, graceMs = 6000, lastMs = 1000 }: Patience = {}
): Promise<void> {
  drain.begin()
  await new Promise(resolve => {
    setTimeout(resolve, drainMs)
  })
  const timers = [
    setTimeout(() => {
      ending.abandon().catch(() => {})
    }, graceMs),
    setTimeout(() => {
      app.server.closeAllConnections()
    }, graceMs + lastMs)
  ]
  await app.close()
  timers.forEach(clearTimeout)
  await ending.close()
}
