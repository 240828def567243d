import { hostname } from 'node:os'
import { type Logger } from 'pino'
import { SecretMasker } from '../config/secrets.js'
import { bytesPerMb } from '../config/units.js'
import { type Config, type NamedUpstream } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { RecentCounts } from '../metrics/recent-counts.js'
import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type Follower } from '../follow/follower.js'
import { type ProxyContext } from '../proxy/proxy-context.js'
import { HistoryForecast } from '../proxy/history-forecast.js'
import { ResponseBuilder } from '../proxy/response-builder.js'
import { ClientPolicies } from '../http/client-policies.js'
import { ConnectionLimiter } from '../http/connection-limiter.js'
import { Cors } from '../http/cors.js'
import { type DrainFlag } from '../http/listener.js'
import { loadTickMs, LoadShedder } from '../http/load-shedder.js'
import { RequestIds } from '../http/http-exchange.js'
import { publicApp } from '../http/public-app.js'
import { type ListenerContext } from '../http/send-response.js'
import { levels, type StatusSources } from '../http/status-conditions.js'
import { statusOf } from '../http/status.js'
import { withTimeout } from '../with-timeout.js'
import { type PeerMessage, type ShutdownDeadlines } from '../peers/messages.js'
import { logLevels } from './log.js'
import { listenOn } from './listen.js'
import { OwnedLog } from './owned-log.js'
import { inFlightMbOf } from '../config/in-flight-memory.js'
import { connectionLimitFor } from './descriptors.js'
import { buildComponents, type Components } from './components.js'
import { type Host, openRedis } from './host.js'
import { knownRequestCache } from '../proxy/parsed-request.js'
import { type Purger, buildPurger } from './purger.js'
import { stopGracefully } from './stop.js'
import { programInfo } from './io.js'

/** Public listener of one process with everything that serves reads. */
export interface ProxyServer {
  readonly statusSources: StatusSources
  /** Configuration in use. */
  readonly config: Config
  readonly purger: Purger
  /** Takes an upstream out of service, or back in; returns false if there is none of that name. */
  setCordoned(upstream: string, isCordoned: boolean): boolean
  /** Removes secrets of the configuration from text that came from outside. */
  mask(text: string): string
  readonly components: Components
  listen(): Promise<string>
  /** Starts polling; resolves after an upstream has responded, or after the start time limit. */
  start(): Promise<void>
  /** Applies another configuration where a running process can; throws without any change if it is unusable. */
  reload(config: Config): Promise<void>
  /** Applies the upstreams of another configuration. */
  replaceUpstreams(config: Config): Promise<void>
  /** Resolves after requests in flight have finished; `closeMore` closes other parts together with the listener. */
  stop(deadlines: ShutdownDeadlines | undefined, closeMore: () => Promise<void>): Promise<void>
  /** Closes at once, for a start that failed. */
  close(): Promise<void>
}

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
): Promise<ProxyServer> {
  const now = (): number => performance.now()
  const components = buildComponents(
    started,
    sandbox,
    log,
    metrics,
    {
      redis: await openRedis(started, metrics, now, host.carrier),
      log: host.log ?? await OwnedLog.open(started, log, metrics)
    },
    host
  )
  const { proxy, upstreamPool, headPollers, upstreamLifecycle, following, spaces } = components
  const { peers, fetchLeases, probes, peerSync, redisBackend, backends } = components
  const { certificate } = components
  const { tracker, invalidator, inFlight } = proxy
  const tiers = [proxy.memory, ...proxy.lowerTiers]
  const tracing = started.tracing.otlpUrl === null
    ? undefined
    : (await import('./tracing.js')).startTracing(started.tracing, started.tracing.otlpUrl, { log, metrics, now })
  const drain: DrainFlag = { isDraining: false }
  const clients = new ConnectionLimiter({
    connections: maxConnectionsFor(started),
    inFlight
  }, {
    cut: reason => {
      metrics.connectionCut(reason)
    },
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, 'connection limit reached: new connections are closed')
    }
  })
  const loadShedder = new LoadShedder({
    now: proxy.now,
    lateMs: started.limits.loopLagMs,
    onShed: () => {
      metrics.shed()
    },
    onChange: isShedding => {
      if (isShedding) log.warn('overloaded: serving cached responses only')
      else log.info('no longer overloaded: serving everything')
    }
  })
  const recent = new RecentCounts(
    () => metrics.countsWithFaults,
    () => performance.timeOrigin + proxy.now(),
    () => metrics.totals
  )
  const history = new HistoryForecast(proxy)
  const timers = [
    setInterval(() => {
      clients.tick()
      proxy.lowestRequested.rotate()
      history.tick()
    }, tickMs).unref(),
    setInterval(() => {
      recent.tick()
    }, tickMs).unref(),
    setInterval(() => {
      loadShedder.tick()
    }, loadTickMs).unref()
  ]
  peers.subscribe(onMessage)
  const { version, docs } = programInfo()
  const isSandbox = sandbox !== undefined
  let config = started
  const masker = new SecretMasker(started)
  const requestIds = new RequestIds()
  const first = listenerContextOf(started, following.follower)
  const { app, reload } = publicApp(first)
  metrics.addClients(first.access.clientNames)
  const cancelRequests = async (): Promise<void> => {
    proxy.versionWaits.close()
    await upstreamLifecycle.close()
  }
  const close = async (): Promise<void> => {
    certificate?.close()
    timers.forEach(clearInterval)
    headPollers.stop()
    following.close()
    await Promise.all([upstreamLifecycle.close(), ...tiers.map(async tier => await tier.close())])
    peerSync.stop()
    peers.stop()
    for (const backend of backends) await backend.stop()
    await tracing?.close()
  }
  const statusSources: StatusSources = {
    tracker,
    upstreamPool,
    drain,
    needsUpstream: () => config.readiness.requireUpstream,
    clients,
    loadShedder,
    inFlight,
    recent,
    tiers,
    history,
    follow: () => following.status,
    info: () => ({ version, docs, host: hostname(), isSandbox }),
    degradedTiers: () =>
      [
        ...backends.flatMap(({ store }) => store.warnings),
        ...backends.flatMap(backend => backend.warnings()),
        ...following.warnings
      ].map(text => masker.mask(text)),
    degradedCertificate: () => certificate?.warnings ?? []
  }
  metrics.registerListenerGauges(clients, () => levels.indexOf(statusOf(statusSources).level))
  timers.push(logLevels(log, () => statusOf(statusSources)))
  return {
    statusSources,
    get config () {
      return config
    },
    components,
    mask: text => masker.mask(text),
    purger: buildPurger({
      tracker,
      spaces,
      invalidator,
      shared: redisBackend,
      sync: async () => {
        await peerSync.sync()
      },
      chainMismatch: () => describeChainMismatch(upstreamPool.upstreams, tracker)
    }),
    setCordoned: (name, isCordoned) => {
      if (!upstreamPool.upstreams.some(upstream => upstream.name === name)) return false
      components.cordons[isCordoned ? 'add' : 'delete'](name)
      log.warn({ upstream: name }, isCordoned ? 'upstream cordoned: it gets no reads' : 'upstream uncordoned')
      return true
    },
    listen: async () => await listenOn(app, started.listen, 'listen'),
    start: async () => {
      await Promise.all(backends.map(async backend => {
        await backend.start(async () => {
          await peerSync.sync()
        })
      }))
      peers.start()
      peerSync.start()
      // A silent upstream must not prevent a process from serving cached responses or from stopping (law 6: the cache
      // can only help).
      await withTimeout(maxStartMs, headPollers.start())
      await spaces.restore()
      // A shared tier is read once its purges are known.
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
      const context = listenerContextOf(next, follower)
      const serve = await reload(context)
      await upstreamLifecycle.reload(next)
      // Nothing fails from here on, so a rejected configuration changes nothing.
      follow()
      serve()
      metrics.addClients(context.access.clientNames)
      clients.setLimit(maxConnectionsFor(next))
      loadShedder.setLateMs(next.limits.loopLagMs)
      // Counts what the memory tier has now: another size takes effect at a start.
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
      // Reads an upstream, so it begins before their connections close.
      const recorded = spaces.recordLast().catch(() => {})
      await stopGracefully(app, drain, {
        cancelRequests,
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

  function onMessage (message: PeerMessage): void {
    switch (message.kind) {
      case 'changed':
        if (message.isRedisUp === false) return redisBackend?.onLost()
        // Each process verifies its own upstreams before it resets its chain (law 7: chains never mix).
        if (message.resetFrom !== undefined && message.resetFrom === tracker.space?.name) {
          headPollers.reverifyAll().catch(() => {})
        }
        peerSync.sync().catch(() => {})
        return
      case 'head':
        tracker.learnOfPeer(message.stamped)
        return
      case 'fetched':
        fetchLeases?.onEnded(message.lease, message)
        return
      case 'tail':
        return following.onEvent(message.event)
      case 'digests':
        return following.onDigests(message.source)
      case 'demand':
        return following.onDemand(message.demand)
      case 'polled':
        return probes.onResult(message, () => {
          headPollers.poll(message.upstream).catch(() => {})
        })
    }
  }

  function listenerContextOf (of: Config, follower: Follower | undefined): ListenerContext {
    // Cached responses have headers that were printed under the names of the first configuration.
    const proxyContext: ProxyContext = {
      ...proxy,
      follower,
      rejectIfOverloaded: () => {
        loadShedder.rejectIfOverloaded()
      },
      settings: { ...of, headers: started.headers }
    }
    const access = new ClientPolicies(of, components.buckets)
    const cors = new Cors(of.cors.origins)
    const responseBuilder = new ResponseBuilder(
      proxyContext,
      of.downstream.cacheControl,
      of.clients.required,
      cors.dependsOnOrigin
    )
    return {
      config: of,
      proxy: proxyContext,
      knownRequests: knownRequestCache(of.cache.memory.maxMb * bytesPerMb),
      access,
      responseBuilder,
      metrics,
      log,
      requestIds,
      tracer: tracing?.tracer,
      isSandbox,
      drain,
      cors,
      clients,
      certificate
    }
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
