import { randomInt, randomUUID } from 'node:crypto'
import { unwatchFile, watchFile } from 'node:fs'
import { type FastifyInstance } from 'fastify'
import { type Logger } from 'pino'
import { LocalBuckets } from '../clients/token-buckets.js'
import { ConfigError, mistakeText } from '../config/config-error.js'
import { type LoadedConfig } from '../config/load.js'
import { primaryRestartPaths, reloadedKeys, restartPaths } from '../config/restart-keys.js'
import { type Config, type NamedUpstream, sandboxUpstream } from '../config/schema.js'
import { maskSecrets } from '../config/secrets.js'
import { socketPathOf } from '../config/value-checks.js'
import { warningsOf } from '../config/start-checks.js'
import {
  type AdminCall,
  adminApp,
  adminFullMessage,
  type AdminLog,
  type AdminOptions,
  type ReloadResult
} from '../http/admin-app.js'
import { reportUnexpectedError } from '../http/send-response.js'
import { Metrics } from '../metrics/metrics.js'
import { Deferred } from '../peers/deferred.js'
import { noCarrier } from '../peers/peers.js'
import { type Program } from '../peers/worker-pool.js'
import { webFrameworkError } from '../api/error-response.js'
import { type Host } from './chain.js'
import { listenOn, removeStaleSocket } from './listen.js'
import { startDnsDiscovery, type DnsDiscoveryOptions } from './dns-discovery.js'
import { logRateLimit } from './log.js'
import { buildProxyServer, type Serving, type Varve } from './proxy-server.js'

export { type Varve } from './proxy-server.js'

/** Reads the configuration again, as SIGHUP does. */
export type Reload = AdminOptions['reload']

/** Answers POST /reload if no file was read. */
async function rejectReload (): Promise<never> {
  throw webFrameworkError(404, 'there is no file to read again: the program that started varve reloads it')
}

/**
 * Starts one process or several workers, in front of the sandbox only on request (law 14: made-up data is never served
 * by accident).
 */
export async function startServing (
  { config, isSandbox }: Pick<LoadedConfig, 'config' | 'isSandbox'>,
  log: Logger,
  program: Program,
  metrics: Metrics = new Metrics(),
  dnsDiscovery: Partial<DnsDiscoveryOptions> = {},
  reload: Reload = rejectReload
): Promise<Varve> {
  for (const { key, message } of warningsOf(config)) log.warn({ key }, message)
  // Removes a stale socket before any worker listens, because later a worker could remove the socket of another worker.
  const socketPath = socketPathOf(config.listen)
  if (socketPath !== undefined) await removeStaleSocket(socketPath)
  const start = async (started: Config, sandbox?: NamedUpstream): Promise<Varve> => {
    const serving = started.workers === 1
      ? await buildProxyServer(started, sandbox, log, metrics, hostOfOne())
      : await (await import('./multi-process.js')).openPrimary(started, sandbox, log, metrics, program)
    return await openListeners(serving, started, log, metrics, reload)
  }
  if (!isSandbox) return await startDnsDiscovery(config, start, { log, now: () => performance.now(), ...dnsDiscovery })
  // Holds seven hours of blocks, so that the README's examples keep working and memory stays bounded.
  const { startSandbox } = await import('#sandbox')
  const sandbox = await startSandbox({
    windowBlocks: 100_000,
    // Begins another chain at each start with a disk tier: the sandbox's ledger begins again, and on one chain its
    // position would contradict the position on the disk.
    ...(config.cache.disk.path !== null && { seed: randomInt(1, 1_000_000_000) })
  })
  log.warn(
    { url: sandbox.url },
    'sandbox: serving made-up data of the embedded node, requested by --sandbox or VARVE_SANDBOX'
  )
  try {
    const varve = await start(config, sandboxUpstream(sandbox.url))
    return {
      ...varve,
      stop: async deadlines => {
        await varve.stop(deadlines)
        await sandbox.close()
      }
    }
  } catch (error) {
    // An open listener would keep a failed process alive.
    await sandbox.close()
    throw error
  }
}

/** Host of a process that runs alone. */
function hostOfOne (): Host {
  return {
    configuration: randomUUID(),
    carrier: noCarrier,
    buckets: new LocalBuckets(() => performance.now()),
    budgets: undefined,
    cordoned: [],
    entryLog: undefined,
    leasesOf: () => undefined,
    lease: async () => true,
    release: async () => true,
    purgeOthers: () => {}
  }
}

/** Opens both listeners; one process and several are started, reloaded and stopped alike. */
async function openListeners (
  serving: Serving,
  started: Config,
  log: Logger,
  metrics: Metrics,
  reload: Reload
): Promise<Varve> {
  const { workers } = started
  let config = started
  const admin = buildAdmin(serving, log, metrics, () => config, reload)
  try {
    // Listens before contacting upstreams and Redis: an address in use may mean that another varve already works there.
    const adminUrl = await listenOn(admin, config.admin.listen, 'admin.listen')
    const url = await serving.listen()
    log.info({ url, adminUrl, ...(workers > 1 && { workers }) }, 'listening')
    await serving.start()
    return {
      url,
      adminUrl,
      status: async () => await serving.status(),
      purge: async body => await serving.purge(body),
      reload: async next => {
        const before = config
        await serving.reload(next)
        config = next
        log.level = next.log.level
        const ofStart = serving.sharesMemory === true ? [...primaryRestartPaths, 'cache.memory'] : primaryRestartPaths
        return reloadedKeys(started, before, next, workers > 1 ? ofStart : restartPaths)
      },
      replaceUpstreams: async next => {
        await serving.replaceUpstreams(next)
        config = next
      },
      stop: async deadlines => {
        // A load balancer can react to a stop during the drain.
        await serving.stop(
          { drainMs: config.shutdown.drainSeconds * 1000, ...deadlines },
          async () => await admin.close()
        )
      }
    }
  } catch (error) {
    await serving.close()
    await admin.close()
    throw error
  }
}

// Cuts long table keys and bodies; most fit, so an operator can repeat the call by hand.
const maxShownChars = 500
// Logs a person's few mistakes; a client that guesses tokens adds at most ten lines a minute.
const rejectedRate = { lines: 10, perMs: 60_000 }

/** Builds the admin listener of one process or of several. */
function buildAdmin (
  serving: Serving,
  log: Logger,
  metrics: Metrics,
  config: () => Config,
  reload: Reload
): FastifyInstance {
  return adminApp({
    metrics: { contentType: metrics.contentType, text: async () => await serving.metricsText() },
    status: async () => await serving.status(),
    setCordoned: async (...cordon) => await serving.setCordoned(...cordon),
    reload,
    config: () => maskSecrets(config()),
    hosts: () => config().admin.hosts,
    purgeRoute: {
      token: () => config().admin.token,
      log: adminLog(log),
      purge: async body => {
        const { space, ...purged } = await serving.purge(body)
        // Leaves out the name of the space while a place is down, because another process may purge everything too and
        // name another space.
        return { ...purged, ...(purged.everywhere && space !== undefined && { space }) }
      }
    },
    onUnexpectedError: error => reportUnexpectedError({ log, metrics }, error),
    onFull: (turnedAway, limit) => log.warn({ turnedAway, limit }, adminFullMessage)
  })
}

/** Logs purges and rejected tokens, each with the address of its sender. */
function adminLog (log: Logger): AdminLog {
  const mayLog = logRateLimit(() => performance.now(), rejectedRate)
  return {
    purged: (call, body, result) => {
      const { all, read } = subjectOf(body)
      const fields = { clientAddress: call.clientAddress, ...read, ...result }
      if (all) log.warn(fields, 'purged everything: a new space begins')
      else {
        const what = 'account' in read ? 'an account' : 'a read'
        log.info(fields, result.stored === false ? `purged ${what} that was not stored` : `purged ${what}`)
      }
    },
    tokenRejected: (call, status) => {
      const suppressed = mayLog()
      if (suppressed === undefined) return
      log.warn(
        { ...describe(call), status, ...(suppressed > 0 && { suppressed }) },
        'admin call rejected: the token is missing, wrong or not configured'
      )
    }
  }
}

function describe ({ clientAddress, method, url }: AdminCall): AdminCall {
  return { clientAddress, method, url: url.slice(0, maxShownChars) }
}

// Reads a body that has just been executed as a purge.
function subjectOf (body: Buffer): { all: boolean, read: object } {
  const { all, account, method = 'GET', url = '', body: sent } = JSON.parse(body.toString()) as Record<string, unknown>
  if (all === true) return { all, read: {} }
  if (account !== undefined) return { all: false, read: { account } }
  const text = typeof sent === 'string' ? sent : JSON.stringify(sent)
  return {
    all: false,
    read: { method, url: String(url).slice(0, maxShownChars), body: text?.slice(0, maxShownChars) }
  }
}

// Polls: file watches miss a switched symlink (Kubernetes secrets) and changes on network file systems.
const keysFileCheckMs = 2000

/** Watches the file of client keys, and reloads when it has changed. */
export class KeysFileWatch {
  #file: string | null = null
  #reload = async (): Promise<unknown> => undefined

  // Ignores errors, because `reload` reports them.
  readonly #onChange = (): void => {
    this.#reload().catch(() => {})
  }

  /** Watches the keys file of the configuration in use instead of the last file; null watches none. */
  use (file: string | null, reload: () => Promise<unknown>): void {
    this.#reload = reload
    if (file === this.#file) return
    this.close()
    if (file !== null) watchFile(file, { interval: keysFileCheckMs, persistent: false }, this.#onChange)
    this.#file = file
  }

  close (): void {
    if (this.#file !== null) unwatchFile(this.#file, this.#onChange)
    this.#file = null
  }
}

/** Reloads the configuration; after any error the previous configuration stays in use. */
export class ConfigReloader {
  readonly #load: () => LoadedConfig
  readonly #apply = new Deferred<Varve['reload']>()
  readonly #metrics: Pick<Metrics, 'process'>
  readonly #log: Logger
  #last: Promise<unknown> = this.#apply.promise
  #next: Promise<ReloadResult> | undefined
  #isClosed = false

  constructor (load: () => LoadedConfig, metrics: Pick<Metrics, 'process'>, log: Logger) {
    this.#load = load
    this.#metrics = metrics
    this.#log = log
  }

  /** Begins to reload, once varve has started. */
  start (apply: Varve['reload']): void {
    this.#apply.resolve(apply)
  }

  /** Reloads after a running reload, which may have read an older file. Calls that wait for it share one reload. */
  async reload (): Promise<ReloadResult> {
    this.#next ??= this.#last.then(async () => {
      this.#next = undefined
      return await this.#reload(await this.#apply.promise)
    })
    this.#last = this.#next
    return await this.#next
  }

  /** Ignores later reloads and logs nothing about a running one. */
  close (): void {
    this.#isClosed = true
  }

  async #reload (apply: Varve['reload']): Promise<ReloadResult> {
    try {
      if (this.#isClosed) throw new Error('varve is stopping')
      const { changed, needsRestart } = await apply(this.#load().config)
      if (!this.#isClosed) {
        for (const key of needsRestart) this.#log.warn({ key }, 'changed key needs a restart')
        this.#metrics.process.reloaded('reloaded')
        this.#log.info({ changed }, 'configuration reloaded')
      }
      return { reloaded: true, changed, needsRestart }
    } catch (error) {
      const file = error instanceof ConfigError ? error.file : undefined
      const mistakes = error instanceof ConfigError
        ? error.mistakes.map(mistake => mistakeText(mistake, file))
        : [(error as Error).message]
      if (!this.#isClosed) {
        this.#metrics.process.reloaded('rejected')
        this.#log.error(
          { file, reasons: mistakes },
          'new configuration rejected: the previous one stays in use'
        )
      }
      return { reloaded: false, mistakes }
    }
  }
}
