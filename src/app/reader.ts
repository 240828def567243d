import { lookup } from 'node:dns/promises'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { type Buckets, LocalBuckets } from '../clients/buckets.js'
import { Masking } from '../config/masking.js'
import { type Config, hostAndPort, isShared } from '../config/schema.js'
import { type Metrics } from '../metrics/metrics.js'
import { Recent } from '../metrics/recent.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { type Parts } from '../proxy/parts.js'
import { Stamper } from '../proxy/stamp.js'
import { Access } from '../http/access.js'
import { ClientConnections } from '../http/client-connections.js'
import { Cors } from '../http/cors.js'
import { Drain } from '../http/drain.js'
import { lagEveryMs, LoopLag } from '../http/loop-lag.js'
import { exchangePublicApp, publicApp, requestIds } from '../http/public-app.js'
import { type PublicParts } from '../http/reply.js'
import { type StatusParts } from '../http/status.js'
import { within } from '../within.js'
import { type Patience } from '../workers/messages.js'
import { listenFault } from './listen-fault.js'
import { inFlightBytesFor, placesFor } from './room.js'
import { build, type Built, type Hooks, knownReadsOf, settingsOf } from './build.js'
import { type Purger, purgerOf } from './purger.js'
import { stopGracefully } from './stop.js'
import { versionOfProgram } from './version.js'

/** Everything that answers reads in one process, behind its public listener. */
export interface Reader {
  readonly status: StatusParts
  readonly metrics: Metrics
  readonly purger: Purger
  /** Takes secrets of the configuration out of what others have said. */
  mask(text: string): string
  readonly built: Built
  listen(): Promise<string>
  /** Begins to ask the nodes; resolves when one has answered, or as many seconds have passed as a start may take. */
  begin(): Promise<void>
  /**
   * Answers by another configuration from now on, as far as one can be exchanged in a process that runs; throws where
   * it cannot be used, and nothing has changed then.
   */
  exchange(config: Config): Promise<void>
  /** Ends when what is under way was answered; `closeMore` with what stops with the listener. */
  stop(patience: Patience | undefined, closeMore: () => Promise<void>): Promise<void>
  /** Ends at once, as a start that has failed does. */
  close(): Promise<void>
}

// How long a start waits for the node's first word.
const startMs = 3000
// How often an eye is kept on clients' connections, and on how they were answered.
const tickMs = 1000

/** Builds what answers reads, not yet listening. */
export async function readerOf (
  config: Config,
  sandboxUrl: string | undefined,
  log: Logger,
  hooks: Hooks = {}
): Promise<Reader> {
  const built = build(
    config,
    sandboxUrl,
    log,
    isShared(config) ? (await import('./sharing.js')).sharingOf : undefined,
    hooks
  )
  const { parts, metrics, nodes, generations, sharing, certificate } = built
  const { tracker, forgetting } = parts
  const drain = new Drain()
  const clients = new ClientConnections({ connections: roomFor(config), inFlightBytes: inFlightBytesFor(config) }, {
    cut: reason => {
      metrics.cut(reason)
    },
    onFull: (turnedAway, limit) => {
      log.warn({ turnedAway, limit }, 'there is no room for more connections of clients: new ones are closed at once')
    }
  })
  const lag = new LoopLag({
    now: parts.now,
    lateMs: config.limits.loopLagMs,
    onShed: () => {
      metrics.shed()
    },
    onChange: isShedding => {
      if (isShedding) log.warn('there is more to do than can be done in time: only what is kept is served')
      else log.info('there is time again: everything is served')
    }
  })
  metrics.observeClients(clients)
  const recent = new Recent(() => metrics.counts, () => performance.timeOrigin + parts.now())
  const timers = [
    setInterval(() => {
      clients.tick()
      parts.asked.tick()
    }, tickMs).unref(),
    setInterval(() => {
      recent.tick()
    }, tickMs).unref(),
    setInterval(() => {
      lag.tick()
    }, lagEveryMs).unref()
  ]
  const version = versionOfProgram()
  const isSandbox = sandboxUrl !== undefined
  let current = config
  const masking = new Masking(config)
  const nextId = requestIds()
  const alone: Buckets = hooks.countsForAll ?? new LocalBuckets(parts.now)
  const buckets = sharing?.countWith(alone) ?? alone
  const app = publicApp(contextOf(config), nextId)
  const abandon = async (): Promise<void> => {
    parts.arrivals.close()
    await nodes.close()
  }
  const close = async (): Promise<void> => {
    certificate?.close()
    timers.forEach(clearInterval)
    nodes.stop()
    await Promise.all([nodes.close(), sharing?.stop()])
  }
  return {
    status: {
      tracker,
      fleet: nodes.fleet,
      drain,
      clients,
      lag,
      recent,
      memory: parts.memory,
      redis: sharing?.link,
      about: () => ({ version, mode: current.mode, isSandbox }),
      degradedShare: () => (sharing?.degraded() ?? []).map(text => masking.mask(text)),
      degradedCertificate: () => certificate?.complaints ?? []
    },
    metrics,
    built,
    mask: text => masking.mask(text),
    purger: purgerOf({
      tracker,
      generations,
      forgetting,
      sharing,
      eventsDefault: () => current.pages.eventsDefault,
      chainMismatch: () => chainMismatch(nodes.fleet.members, tracker)
    }),
    listen: async () => await listenOn(app, config.listen, 'listen'),
    begin: async () => {
      await sharing?.start(generations)
      // A node that does not answer keeps no process from serving what others have kept, nor from being stopped.
      await within(startMs, nodes.start())
      if (tracker.chain === undefined) await sharing?.recall()
      sharing?.look().catch(() => {})
      const reason = chainMismatch(nodes.fleet.members, tracker)
      if (reason !== undefined) {
        log.error(
          { reason },
          'no upstream serves the configured chain, and until one does reads are refused with 503: is ' +
            'chainId that of your upstreams?'
        )
      } else if (tracker.chain === undefined) {
        log.warn(
          'no node has answered yet, and until one does reads are refused with 503: is each url of upstreams ' +
            'right, without /v1, and is GET /v1 answered there?'
        )
      }
    },
    exchange: async next => {
      const serve = await exchangePublicApp(app, contextOf(next), nextId)
      await nodes.exchange(next)
      serve()
      clients.allow(roomFor(next))
      lag.allow(next.limits.loopLagMs)
      current = next
      masking.take(next)
    },
    stop: async (patience, closeMore) => {
      await stopGracefully(app, drain, {
        abandon,
        close: async () => {
          await Promise.all([close(), closeMore()])
        }
      }, patience)
    },
    close: async () => {
      await app.close()
      await close()
    }
  }

  function contextOf (of: Config): PublicParts {
    // What is kept has its own lines printed under the names that it was kept with.
    const mine: Parts = {
      ...parts,
      requireLeisure: () => {
        lag.requireLeisure()
      },
      settings: settingsOf({ ...of, headers: config.headers })
    }
    const access = new Access(of, buckets)
    metrics.knows(access.names)
    const cors = new Cors(of.cors.origins)
    const stamper = new Stamper(mine, of.downstream.cacheControl, of.clients.required, cors.dependsOnOrigin)
    return {
      config: of,
      parts: mine,
      known: knownReadsOf(of),
      access,
      stamper,
      metrics,
      log,
      isSandbox,
      drain,
      cors,
      clients,
      certificate
    }
  }

  function roomFor (of: Config): number {
    const { limit, isCut } = placesFor(of)
    if (isCut) {
      log.warn(
        { key: 'limits.connections', limit },
        'this process may open too few files for so many connections beside those to nodes: so many are let in'
      )
    }
    return limit
  }
}

/** Opens a listener; what stands in the way is told with the key that named the address. */
export async function listenOn (app: FastifyInstance, address: string, key: string): Promise<string> {
  try {
    const { host, port } = hostAndPort(address)
    // For localhost Fastify opens a second server where it has two addresses, which has nothing of what was put on the
    // first: one address it is, and the log names it.
    return await app.listen({ host: (await lookup(host)).address, port })
  } catch (error) {
    throw listenFault(address, { key, flag: key === 'listen' ? '--listen' : '--admin' }, error as Error)
  }
}
