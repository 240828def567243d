import { hostname } from 'node:os'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { SecretMasker } from '../config/secrets.js'
import { bytesPerMb, inFlightMbOf } from '../config/units.js'
import { type ReloadedKeys } from '../config/restart-keys.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { RecentCounts } from '../metrics/recent-counts.js'
import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type Follower } from '../follow/follower.js'
import { HistoryForecast } from '../proxy/pruned-reads.js'
import { type AdminOptions, type PurgeRouteOptions } from '../http/admin-app.js'
import { ConnectionLimiter } from '../http/connection-limiter.js'
import { type DrainFlag } from '../http/listener.js'
import { loadTickMs, LoadShedder } from '../http/load-shedder.js'
import { RequestIds } from '../http/http-exchange.js'
import { publicApp } from '../http/public-app.js'
import { type ListenerContext, listenerContextOf, type ListenerParts } from '../http/send-response.js'
import { levels, type StatusSources } from '../http/status-conditions.js'
import { statusOf } from '../http/status.js'
import { withTimeout } from '../with-timeout.js'
import { type ShutdownDeadlines } from '../peers/messages.js'
import { logLevels } from './log.js'
import { connectionLimitFor, listenOn } from './listen.js'
import { type Host } from './chain.js'
import { buildComponents, openRedis } from './components.js'
import { openEntryLog } from './disk-backend.js'
import { buildPurger } from './purger.js'
import { subscribeAll } from './event-reactions.js'
import { programInfo } from './io.js'

/** Running varve, as one process or several. */
export interface Varve extends Pick<AdminOptions, 'status'>, Pick<PurgeRouteOptions, 'purge'> {
  readonly url: string
  readonly adminUrl: string
  /** Applies another configuration, or throws without a change. */
  readonly reload: (config: Config) => Promise<ReloadedKeys>
  /** Applies another list of upstreams, and nothing else of the configuration. */
  readonly replaceUpstreams: (config: Config) => Promise<void>
  stop(deadlines?: ShutdownDeadlines): Promise<void>
}

/** Serves reads at the public listener: this process, or the workers that it starts. */
export interface Serving extends Pick<AdminOptions, 'status' | 'setCordoned'>, Pick<PurgeRouteOptions, 'purge'> {
  metricsText(): Promise<string>
  /** True if processes share the memory of the cache, so that only a restart changes its size. */
  readonly sharesMemory?: boolean
  listen(): Promise<string>
  /** Contacts upstreams; resolves after one has responded, or after the start time limit. */
  start(): Promise<void>
  /** Applies another configuration as far as a running process can; throws without any change if it is unusable. */
  reload(config: Config): Promise<void>
  /** Applies the upstreams of another configuration. */
  replaceUpstreams(config: Config): Promise<void>
  /** Resolves after requests in flight have finished; `closeMore` closes other parts together with the listener. */
  stop(deadlines: ShutdownDeadlines | undefined, closeMore: () => Promise<void>): Promise<void>
  /** Closes at once, for a start that failed. */
  close(): Promise<void>
}

/** Public listener of one process with everything that serves reads. */
export type ProxyServer = Awaited<ReturnType<typeof buildProxyServer>>

// Time limit for the first poll of a start.
const maxStartMs = 3000
// Interval of connection checks and of recent counts.
const tickMs = 1000

/** Builds the public listener and its parts without listening. */
export async function buildProxyServer (
  started: Config,
  sandbox: NamedUpstream | undefined,
  log: Logger,
  metrics: Metrics,
  host: Host
) {
  const redis = await openRedis(started, metrics, host.carrier)
  const entryLog = host.entryLog ?? await openEntryLog(started, log, metrics)
  const parts = buildComponents(started, sandbox, log, metrics, redis, entryLog, host)
  const { now, proxy, tiers, isSandbox, cordons, upstreamPool, headPollers, upstreamLifecycle, tracker } = parts
  const { following, spaces, peers, sharedHead, peerSync, backends, certificate, inFlight } = parts
  const { version, docs } = programInfo()
  const { otlpUrl, ...traced } = started.tracing
  const tracing = otlpUrl === null ? undefined : (await import('../tracing/otlp-exporter.js')).startTracing({
    ...traced,
    url: otlpUrl,
    resource: { 'service.name': traced.serviceName, 'service.version': version, 'host.name': hostname() },
    timeOriginMs: performance.timeOrigin,
    now,
    count: metrics.traced,
    onFailed: reason => log.warn({ reason }, 'traces could not be sent: check tracing.otlpUrl and the collector')
  })
  const drain: DrainFlag = { isDraining: false }
  const clients = new ConnectionLimiter({ connections: maxConnectionsFor(started), inFlight }, {
    cut: reason => metrics.connectionCut(reason),
    onFull: (turnedAway, limit) =>
      log.warn({ turnedAway, limit }, 'connection limit reached: new connections are closed')
  })
  const loadShedder = new LoadShedder({
    now,
    lateMs: started.limits.loopLagMs,
    onShed: () => metrics.shed(),
    onChange: isShedding => {
      if (isShedding) log.warn('overloaded: serving cached responses only')
      else log.info('no longer overloaded: serving everything')
    }
  })
  const recent = new RecentCounts(
    () => metrics.countsWithFaults,
    () => performance.timeOrigin + now(),
    () => metrics.totals
  )
  const history = new HistoryForecast(parts)
  subscribeAll(parts)
  let config = started
  const masker = new SecretMasker(started)
  const statusSources: StatusSources = {
    ...parts,
    drain,
    needsUpstream: () => config.readiness.requireUpstream,
    clients,
    loadShedder,
    recent,
    history,
    follow: () => following.status,
    info: () => ({ version, docs, host: hostname(), isSandbox }),
    degradedTiers: () =>
      [
        ...backends.flatMap(backend => [...backend.store.warnings, ...backend.warnings()]),
        ...following.warnings
      ].map(text => masker.mask(text)),
    degradedCertificate: () => certificate?.warnings ?? []
  }
  const status = (): ReturnType<typeof statusOf> => statusOf(statusSources)
  // Lists only what the listener needs, because an object with more members would make each hit slower.
  const listener: ListenerParts = {
    buckets: parts.buckets,
    metrics,
    log,
    requestIds: new RequestIds(),
    tracer: tracing?.tracer,
    isSandbox,
    drain,
    clients,
    certificate
  }
  const { app, reload } = publicApp(contextOf(started, following.follower))
  metrics.registerListenerGauges(clients, () => levels.indexOf(status().level))
  const timers = [
    setInterval(() => {
      clients.tick()
      proxy.lowestRequested.rotate()
      history.tick()
      recent.tick()
    }, tickMs).unref(),
    setInterval(() => loadShedder.tick(), loadTickMs).unref(),
    logLevels(log, status)
  ]
  const close = async (): Promise<void> => {
    certificate?.close()
    timers.forEach(clearInterval)
    headPollers.stop()
    following.close()
    await Promise.all([upstreamLifecycle.close(), ...tiers.map(async tier => await tier.close())])
    peerSync.stop()
    await sharedHead?.stop()
    peers.stop()
    for (const backend of backends) await backend.stop()
    await tracing?.close()
  }
  const purger = buildPurger(parts)
  const serving: Serving = {
    ...purger,
    metricsText: async () => await metrics.text(),
    status: async () => status(),
    setCordoned: async (name, isCordoned) => {
      if (!upstreamPool.upstreams.some(upstream => upstream.name === name)) return false
      cordons[isCordoned ? 'add' : 'delete'](name)
      log.warn({ upstream: name }, isCordoned ? 'upstream cordoned: it gets no reads' : 'upstream uncordoned')
      return true
    },
    listen: async () => await listenOn(app, started.listen, 'listen'),
    start: async () => {
      await Promise.all(backends.map(async backend => await backend.start(async () => await peerSync.sync())))
      peers.start()
      peerSync.start()
      sharedHead?.start()
      // A silent upstream must not prevent a process from serving cached responses or from stopping (law 6: the cache
      // can only help).
      await withTimeout(maxStartMs, headPollers.start())
      await spaces.restore()
      // Reads a shared tier only once its purges are known.
      await peerSync.sync().catch(() => {})
      const reason = describeChainMismatch(upstreamPool.upstreams, tracker)
      if (reason !== undefined) {
        log.error(
          { reason },
          'no upstream serves the configured chain: reads get 503 until one does; check that chainId is the chain of ' +
            'your upstreams'
        )
      } else if (tracker.space === undefined) {
        log.warn(
          'no upstream has responded yet: reads get 503 until one does; check each url of upstreams, which must not ' +
            'end with /v1, and that GET /v1 works there'
        )
      }
    },
    reload: async next => {
      const { follower, use: follow } = following.prepare(next)
      const serve = await reload(contextOf(next, follower))
      await upstreamLifecycle.reload(next)
      // Nothing fails from here on, so a rejected configuration changes nothing.
      follow()
      serve()
      clients.setLimit(maxConnectionsFor(next))
      loadShedder.setLateMs(next.limits.loopLagMs)
      // Counts the present size of the memory tier, because only a start takes another size.
      inFlight.maxBytes = inFlightMbOf({ ...next, cache: started.cache, workers: 1 }) * bytesPerMb
      config = next
      masker.addSecretsOf(next)
    },
    replaceUpstreams: async next => {
      await upstreamLifecycle.reload(next)
      clients.setLimit(maxConnectionsFor(next))
      config = next
    },
    stop: async (deadlines, closeMore) => {
      // Begins before the connections to upstreams close, because recording reads from an upstream.
      const recorded = spaces.recordLast().catch(() => {})
      await stopGracefully(app, drain, {
        cancelRequests: async () => {
          proxy.versionWaits.close()
          await upstreamLifecycle.close()
        },
        close: async () => {
          await recorded
          await Promise.all([close(), closeMore()])
        }
      }, deadlines)
    },
    close: async () => {
      await app.close()
      await close()
    }
  }
  return { ...serving, ...purger, metrics, statusSources, mask: (text: string) => masker.mask(text) }

  function contextOf (of: Config, follower: Follower | undefined): ListenerContext {
    return listenerContextOf(listener, of, {
      ...proxy,
      follower,
      rejectIfOverloaded: () => loadShedder.rejectIfOverloaded(),
      // Keeps the header names of the start, because cached responses contain headers printed with those names.
      settings: { ...of, headers: started.headers }
    })
  }

  function maxConnectionsFor (of: Config): number {
    const { limit, isReduced } = connectionLimitFor(of)
    if (isReduced) {
      log.warn(
        { key: 'limits.connections', limit },
        'connection limit reduced: too few file descriptors for limits.connections and upstream connections'
      )
    }
    return limit
  }
}

/** Shutdown steps besides closing the listener. */
interface ShutdownSteps {
  /** Cancels upstream requests, so that waiting clients get an error response. */
  readonly cancelRequests: () => Promise<void>
  readonly close: () => Promise<void>
}

/**
 * Stops without losing a request: responses close their connections during the drain, then the listener closes. Slow
 * requests get an error response.
 */
async function stopGracefully (
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
    setTimeout(() => steps.cancelRequests().catch(() => {}), graceMs),
    setTimeout(() => app.server.closeAllConnections(), graceMs + flushMs)
  ]
  await app.close()
  timers.forEach(clearTimeout)
  await steps.close()
}
