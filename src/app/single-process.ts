import { type Logger } from 'pino'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { reloadedKeys, type ReloadedKeys } from '../config/restart-keys.js'
import { type Metrics } from '../metrics/metrics.js'
import { statusOf } from '../http/status.js'
import { type AdminTarget, buildAdmin, type Reload } from './admin-listener.js'
import { hostOfOne } from './host.js'
import { listenOn } from './listen.js'
import { buildProxyServer } from './proxy-server.js'
import { type ShutdownDeadlines } from '../peers/messages.js'
import { drainMsOf } from './stop.js'

/** Running varve, as one process or several. */
export interface Varve extends Pick<AdminTarget, 'status' | 'purge'> {
  readonly url: string
  readonly adminUrl: string
  /** Applies another configuration, or throws without a change. */
  reload(config: Config): Promise<ReloadedKeys>
  /** Applies another list of upstreams, and nothing else of the configuration. */
  replaceUpstreams(config: Config): Promise<void>
  stop(deadlines?: ShutdownDeadlines): Promise<void>
}

/** Serves from this process, without workers. */
export async function startSingleProcess (
  config: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  reload: Reload
): Promise<Varve> {
  const now = (): number => performance.now()
  const server = await buildProxyServer(config, sandbox, log, metrics, hostOfOne(now))
  const target: AdminTarget = {
    metricsText: async () => await metrics.text(),
    status: async () => statusOf(server.statusSources),
    setCordoned: async (upstream, isCordoned) => server.setCordoned(upstream, isCordoned),
    purge: async body => await server.purger.purge(body),
    reload
  }
  const admin = buildAdmin({ log, metrics, config: () => server.config, now }, target)
  try {
    // Listens before contacting upstreams and Redis: an address in use may mean that another varve already works there.
    const adminUrl = await listenOn(admin, config.admin.listen, 'admin.listen')
    const url = await server.listen()
    log.info({ url, adminUrl }, 'listening')
    await server.start()
    return {
      url,
      adminUrl,
      status: target.status,
      purge: target.purge,
      reload: async next => {
        const before = server.config
        await server.reload(next)
        log.level = next.log.level
        return reloadedKeys(config, before, next)
      },
      replaceUpstreams: async next => {
        await server.replaceUpstreams(next)
      },
      stop: async deadlines => {
        await server.stop({ drainMs: drainMsOf(server.config), ...deadlines }, async () => {
          await admin.close()
        })
      }
    }
  } catch (error) {
    await server.close()
    await admin.close()
    throw error
  }
}
