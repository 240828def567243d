import { type FastifyInstance } from 'fastify'
import { pino, type Logger } from 'pino'
import { Compressor } from '../cache/compressor.js'
import { Memory } from '../cache/memory.js'
import { GatheringFlight, SingleFlight } from '../cache/single-flight.js'
import { StreamEnds } from '../cache/stream-ends.js'
import { type Flags, type Loaded, loadConfig } from '../config/load.js'
import { withoutEffect } from '../config/not-yet.js'
import { type Config, hostAndPort } from '../config/schema.js'
import { Tracker } from '../ledger/tracker.js'
import { Metrics } from '../metrics.js'
import { readFinalBlock } from '../nodes/final-block.js'
import { HeadPoll, type PollState, readHead } from '../nodes/head-poll.js'
import { LedgerNode } from '../nodes/node.js'
import { LiveReleases } from '../nodes/live-releases.js'
import { OneNode } from '../nodes/one-node.js'
import { Forgetting } from '../proxy/forgetting.js'
import { isForMany, isShareable } from '../proxy/outcomes.js'
import { type Parts, type ProxySettings } from '../proxy/parts.js'
import { Pruning } from '../proxy/pruning.js'
import { Renewals } from '../proxy/renewals.js'
import { Stamper } from '../proxy/stamp.js'
import { Generations } from '../replicas/generations.js'
import { type Sandbox, startSandbox } from '../sandbox/sandbox.js'
import { adminApp } from '../server/admin-app.js'
import { Cors } from '../server/cors.js'
import { Drain } from '../server/drain.js'
import { publicApp } from '../server/public-app.js'
import { bannerOf } from './banner.js'
import { purgerOf } from './purger.js'
import { isShared, sharingOf } from './sharing.js'
import { type ExitCode, exitCodes, type Io } from './io.js'
import { type Patience, stopGracefully } from './stop.js'

/** A running varve. */
export interface Varve {
  readonly url: string
  readonly adminUrl: string
  stop (patience?: Patience): Promise<void>
}

const mega = 1024 * 1024

/** Serves until it is told to stop. */
export async function serve (flags: Flags, io: Io): Promise<ExitCode> {
  const loaded = loadConfig(io.environment, flags)
  const log = pino({ level: loaded.config.log.level }, { write: io.out })
  const told = new Promise<string>(resolve => {
    io.onSignal('SIGINT', () => { resolve('SIGINT') })
    io.onSignal('SIGTERM', () => { resolve('SIGTERM') })
  })
  const varve = await startVarve(loaded, log)
  if (io.isTerminal || loaded.config.upstreams.length === 0) io.out(bannerOf(varve, loaded.config))
  log.info({ signal: await told }, 'stopping')
  await varve.stop()
  log.info('stopped')
  return exitCodes.ok
}

/** Builds every part and starts the two listeners: the only place where parts meet. */
export async function startVarve ({ config, given }: Loaded, log: Logger): Promise<Varve> {
  for (const path of withoutEffect(given)) log.warn({ key: path }, 'this key has no effect yet')
  if (config.upstreams.length > 0) return await startInFrontOf(undefined, config, log)
  // The demonstration never forgets, so that what the README and the banner ask for is there however long it runs.
  const sandbox = await startSandbox({ windowBlocks: 100_000_000 })
  log.warn({ url: sandbox.url }, 'no upstream is configured: serving the embedded sandbox node, whose chain is made up')
  try {
    return await startInFrontOf(sandbox, config, log)
  } catch (error) {
    // A listener left behind would keep a process alive that has failed to start.
    await sandbox.close()
    throw error
  }
}

async function startInFrontOf (sandbox: Sandbox | undefined, config: Config, log: Logger): Promise<Varve> {
  const metrics = new Metrics()
  const now = (): number => performance.now()
  const memory = new Memory(config.cache.memory.maxMb * mega, metrics, now)
  const forgetting = new Forgetting(memory)
  const releases = new LiveReleases(now)
  const { redis } = config.cache
  const tracker = new Tracker(config.chainId ?? undefined, now, {
    onReset: stamped => {
      metrics.reset()
      log.warn('the chain was reset: a new generation of keys begins')
      generations.wasReset(stamped)
    },
    onAhead: () => { sharing?.tellHead() }
  }, isShared(redis))
  const node = nodeOf(config, sandbox?.url, now, metrics)
  const sharing = isShared(redis) ? sharingOf(redis, { upstreams: [config.upstreams[0]?.url ?? ''], tracker, releases, forgetting, metrics, log, now }) : undefined
  const generations: Generations = new Generations({
    tracker,
    control: sharing?.control,
    readBlock: async height => await readFinalBlock(async question => await node.ask(question), height),
    readHead: async () => await readHead(async question => await node.ask(question)),
    now,
    events: {
      onGeneration: generation => {
        forgetting.forgetAll()
        log.info({ generation }, 'keys are of this generation')
        sharing?.look().catch(() => {})
      },
      onReplaced: () => {
        metrics.reset()
        log.warn('another replica has noticed that the chain was reset')
      },
      onRival: generation => { log.error({ generation }, 'other replicas share this Redis and read another chain of the same name: give each chain a keyPrefix of its own') }
    }
  })
  const nodes = new OneNode(node, { releases, welcome: async stamped => { await generations.welcome(stamped) } })
  const poll = new HeadPoll(async question => await nodes.ask(question), tracker, {
    pollMs: config.head.pollMs,
    now,
    onState: logChanges(node.name, log),
    onHead: stamped => { generations.renew(stamped).catch(() => {}) },
    onRelease: release => { nodes.runs(release) }
  })
  const parts: Parts = {
    now,
    tracker,
    memory,
    compressor: new Compressor(memory),
    shared: sharing?.store,
    forgetting,
    streamEnds: new StreamEnds(),
    flights: new SingleFlight(isForMany),
    latestFlights: new GatheringFlight(isShareable),
    nodes,
    settle: async () => {
      await poll.poll()
      await generations.settled()
      await sharing?.recall()
    },
    pruning: new Pruning(),
    renewals: new Renewals(now),
    tally: metrics,
    settings: settingsOf(config)
  }
  metrics.observe({ tracker, memory, node, redis: sharing?.link })
  const drain = new Drain()
  const stamper = new Stamper(parts, config.downstream.cacheControl)
  const app = publicApp({ config, parts, stamper, metrics, log, drain, cors: new Cors(config.cors.origins) })
  const purge = purgerOf({ tracker, generations, forgetting, sharing, eventsDefault: config.pages.eventsDefault })
  const admin = adminApp({ metrics, tracker, node, drain, purging: { token: config.admin.token, purge }, degradedShare: () => sharing?.degraded() ?? [] })
  const close = async (): Promise<void> => {
    poll.stop()
    await Promise.all([admin.close(), node.close(), sandbox?.close(), sharing?.stop()])
  }
  try {
    const url = await listen(app, config.listen, 'listen')
    const adminUrl = await listen(admin, config.admin.listen, 'admin.listen')
    log.info({ url, adminUrl }, 'listening')
    await sharing?.start(generations)
    await poll.start()
    if (tracker.chain === undefined) await sharing?.recall()
    sharing?.look().catch(() => {})
    return { url, adminUrl, stop: async patience => { await stopGracefully(app, drain, { abandon: async () => { await node.close() }, close }, patience) } }
  } catch (error) {
    await app.close()
    await close()
    throw error
  }
}

function nodeOf (config: Config, sandboxUrl: string | undefined, now: () => number, metrics: Metrics): LedgerNode {
  const [first] = config.upstreams
  const { name, url, headers, timeoutMs, maxConcurrent, caFile } = first ?? {
    name: 'sandbox', url: sandboxUrl ?? '', headers: {}, timeoutMs: 5000, maxConcurrent: 256, caFile: null
  }
  const maxGatheredBytes = config.cache.maxEntryMb * mega
  return new LedgerNode({ name: name ?? 'node-1', url, headers, timeoutMs, maxConcurrent, caFile, maxGatheredBytes, now }, metrics)
}

function settingsOf ({ mode, upstreams, latest, pages, pruned, headers }: Config): ProxySettings {
  return {
    isObserving: mode === 'observe',
    ignoreCacheControl: upstreams[0]?.ignoreCacheControl ?? false,
    promoteLatest: latest.promote,
    stateMs: latest.stateMs,
    infoMs: latest.infoMs,
    gasMs: latest.gasMs,
    eventsTtlMs: pages.eventsTtlSeconds * 1000,
    servePruned: pruned.serveCached,
    answerLocally: pruned.answerLocally,
    emit: headers.emit
  }
}

async function listen (app: FastifyInstance, address: string, key: string): Promise<string> {
  try {
    return await app.listen(hostAndPort(address))
  } catch (error) {
    throw new Error(`cannot listen on ${address} (${key}): ${(error as Error).message}`)
  }
}

/** One line per change, not one per poll. */
function logChanges (name: string, log: Logger): (state: PollState) => void {
  let last: PollState | undefined
  return state => {
    if (state === last) return
    last = state
    switch (state) {
      case 'answered': return log.info({ node: name }, 'the node answers')
      case 'unanswered': return log.warn({ node: name }, 'the node does not answer, or without a position')
      case 'other_chain': return log.error({ node: name }, 'the node serves another chain')
    }
  }
}
