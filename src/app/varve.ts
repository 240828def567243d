import { type Logger } from 'pino'
import { type Config } from '../config/schema.js'
import { keysThatStay } from '../config/exchange.js'
import { type Metrics } from '../metrics/metrics.js'
import { adminApp, adminIsFull } from '../http/admin-app.js'
import { tellUnforeseen } from '../http/reply.js'
import { readinessOf, statusOf } from '../http/status.js'
import { listenOn, readerOf } from './reader.js'
import { type Patience } from '../workers/messages.js'

/** A running varve, be it of one process or of several. */
export interface Varve {
  readonly url: string
  readonly adminUrl: string
  readonly metrics: Pick<Metrics, 'process'>
  /**
   * Goes over to another configuration; throws where that cannot be done, and the one before goes on. Resolves with the
   * keys that wait for a start.
   */
  exchange(config: Config): Promise<readonly string[]>
  stop(patience?: Patience): Promise<void>
}

/** Serves from this very process. */
export async function startAlone (config: Config, sandboxUrl: string | undefined, log: Logger): Promise<Varve> {
  const reader = await readerOf(config, sandboxUrl, log)
  let current = config
  const admin = adminApp({
    metrics: reader.metrics,
    readiness: async () => readinessOf(reader.status),
    status: async () => statusOf(reader.status),
    onUnforeseen: error => {
      tellUnforeseen({ log, metrics: reader.metrics }, error)
    },
    hosts: () => current.admin.hosts,
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, adminIsFull)
    },
    purging: { token: () => current.admin.token, purge: async body => await reader.purger.purge(body) }
  })
  try {
    // Both before any node, or Redis, hears of this process: where one is taken, another varve may be at work there.
    const adminUrl = await listenOn(admin, config.admin.listen, 'admin.listen')
    const url = await reader.listen()
    log.info({ url, adminUrl }, 'listening')
    await reader.begin()
    return {
      url,
      adminUrl,
      metrics: reader.metrics,
      exchange: async next => {
        await reader.exchange(next)
        log.level = next.log.level
        current = next
        return keysThatStay(config, next)
      },
      stop: async patience => {
        await reader.stop(patience, async () => {
          await admin.close()
        })
      }
    }
  } catch (error) {
    await reader.close()
    await admin.close()
    throw error
  }
}
