import { join } from 'node:path'
import { pino } from 'pino'
import { classOf } from '../../../src/api/read.js'
import { startServing, type Varve } from '../../../src/app/start-serving.js'
import { type Config, configSchema } from '../../../src/config/schema.js'
import { type AuditResult } from '../../../src/proxy/audit.js'
import { sendRequest } from '../client.js'
import { until } from '../until.js'
import { type Chain } from './chain.js'
import { type FuzzSetting, type PurgedRead } from './fuzz-case.js'
import { parsedReadOf } from './request.js'
import { type RawResponse, RawConnections } from './raw-connections.js'
import { type ModelRequest } from './request.js'
import { Observations, type ServedPosition } from './served-position.js'
import { outcomeOf } from './tally.js'
import { type FaultyUpstream } from './upstream.js'

// Program for workers; `npm test` compiles it before.
const program = { file: join(import.meta.dirname, '../../../dist/cli.js'), flags: [] }
const token = 'fuzz'
const pollMs = 25
/** Age that a followed response may have, long enough for hits between the steps of a case. */
export const followedMs = 150
const logErrorLevel = 50
// Errors that a chain reset, an outage or a killed worker brings.
const expectedError = /quarantined|unless the chain is being reset|worker exited|no upstream/

/** Where a varve of a case finds its upstreams and its lower tiers. */
export interface Surroundings {
  readonly upstreams: readonly FaultyUpstream[]
  readonly redis: { readonly url: string, readonly keyPrefix: string } | undefined
  readonly diskPath: string | undefined
}

interface Status {
  readonly position?: { readonly version: string, readonly timestampUsec: string }
  readonly upstreams: ReadonlyArray<
    { readonly state: string, readonly version?: string, readonly oldestVersion?: string, readonly release?: string }
  >
  readonly workers?: ReadonlyArray<{ readonly pid: number, readonly ready: boolean, readonly version?: string }>
}

/** One varve of a case, with its own guarantees: served position and cached reads. */
export class VarveUnderTest {
  wire: RawConnections
  observations = new Observations()
  /** Time at which it last knew what each upstream had. */
  knownAt = -Infinity
  readonly #setting: FuzzSetting
  readonly #surroundings: Surroundings
  readonly #log: Array<Record<string, unknown>>
  #varve: Varve
  #reloads = 0
  /** Cached requests with the chain of each. */
  #cached = new Map<string, number>()
  #audits = 0
  #oldest = { era: 0, height: 0 }
  #isOldestSteady = true

  private constructor (
    setting: FuzzSetting,
    surroundings: Surroundings,
    varve: Varve,
    log: Array<Record<string, unknown>>
  ) {
    this.#setting = setting
    this.#surroundings = surroundings
    this.#varve = varve
    this.#log = log
    this.wire = new RawConnections(varve.url)
  }

  static async start (setting: FuzzSetting, surroundings: Surroundings): Promise<VarveUnderTest> {
    const log: Array<Record<string, unknown>> = []
    return new VarveUnderTest(setting, surroundings, await startVarve(configOf(setting, surroundings, 0), log), log)
  }

  /** Records a response. */
  observe (sent: ModelRequest, { headers }: RawResponse, served: ServedPosition | undefined): void {
    const outcome = outcomeOf(headers['cache-status'])
    const read = parsedReadOf(sent)
    // A latest read that is stored at the followed head may have changed at the next.
    const isHistory = read !== undefined && classOf(read) !== 'moving'
    if (outcome === 'stored' && isHistory && read.minVersion === undefined && served !== undefined) {
      this.#cached.set(JSON.stringify(sent), served.era.index)
    }
    // Excludes moving reads, which cannot be repeated.
    if (outcome?.endsWith('hit') === true && isHistory) this.#audits++
    // Nothing shows which worker has responded.
    if (served === undefined || this.#setting.workers > 1) return
    this.observations.observe(served)
    const { era: { index: era }, oldestHeight: height } = served
    this.#oldest = { era, height: era === this.#oldest.era ? Math.max(this.#oldest.height, height) : height }
  }

  /** Oldest height that it cannot go below, as several upstreams have several. */
  oldestFloor (era: number): number {
    const isSteady = this.#isOldestSteady && this.#surroundings.upstreams.length === 1 && era === this.#oldest.era
    return isSteady ? this.#oldest.height : 0
  }

  /** True if an identical request must be a hit on this chain, because memory has room for all. */
  isCached (sent: ModelRequest, era: number): boolean {
    const { memoryKb, workers } = this.#setting
    return memoryKb === undefined && workers === 1 && this.#cached.get(JSON.stringify(sent)) === era
  }

  /** Last cached read, which may still be cached. */
  get lastCached (): ModelRequest | undefined {
    const last = [...this.#cached.keys()].at(-1)
    return last === undefined ? undefined : JSON.parse(last) as ModelRequest
  }

  /** Expects no cached reads from now on. */
  dropCached (): void {
    this.#cached = new Map()
  }

  /** Expects windows to begin anywhere until it settles, as when an upstream comes back with its whole history. */
  dropOldest (): void {
    this.#isOldestSteady = false
  }

  /** Resolves when it knows what each upstream that is up has, and serves the head; never before that head again. */
  async untilSettled (chain: Chain): Promise<void> {
    const ups = this.#surroundings.upstreams.map(({ state }) => state)
    const heads = ups.filter(({ condition }) => condition === 'up')
    const [best] = heads.toSorted((a, b) => b.height - a.height)
    if (best === undefined) return
    const { archive } = chain.eras[best.era] ?? chain.current
    let status: Status | undefined
    const isSettled = async (): Promise<boolean> => {
      const { position, upstreams, workers } = status = await this.#status()
      const { version } = archive.position(best.height)
      const isKnown = ups.every(({ condition, height, oldest, release, era }, at) => {
        const known = upstreams[at]
        const { archive } = chain.eras[era] ?? chain.current
        return condition !== 'up' || (
          known?.state === 'up' && known.version === String(archive.position(height).version) &&
          known.oldestVersion === String(archive.block(oldest).firstVersion) && known.release === release
        )
      })
      return isKnown && position !== undefined &&
        chain.eraAt(BigInt(position.timestampUsec))?.index === best.era && BigInt(position.version) >= version &&
        (workers === undefined ||
          workers.filter(worker => worker.ready && worker.version !== undefined && worker.version === position.version)
              .length === this.#setting.workers)
    }
    await until(isSettled, 'varve knows its upstreams').catch((error: unknown) => {
      throw new Error(`${(error as Error).message}: ${JSON.stringify(status?.upstreams)} ${JSON.stringify(ups)}`)
    })
    if (!this.#isOldestSteady) this.#oldest = { era: 0, height: 0 }
    this.#isOldestSteady = true
    this.knownAt = this.#setting.workers > 1 ? this.knownAt : performance.now()
    const { position } = status ?? {}
    const era = chain.eras[best.era]
    if (era !== undefined && position !== undefined) {
      this.observations.observe({ era, version: BigInt(position.version) })
    }
  }

  async purge (what: PurgedRead): Promise<number> {
    const { status } = await sendRequest(this.#varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(what === 'all' ? { all: true } : what)
    })
    return status
  }

  /** Renames all upstreams, so that it has to learn them again. */
  async reload (): Promise<void> {
    await this.#varve.reload(configOf(this.#setting, this.#surroundings, ++this.#reloads))
    this.knownAt = -Infinity
  }

  /** Stops it and starts another in its place, which may serve other positions. */
  async restart (meanwhile: () => Promise<void>): Promise<void> {
    await this.stop()
    await meanwhile()
    this.#varve = await startVarve(configOf(this.#setting, this.#surroundings, this.#reloads), this.#log)
    this.wire = new RawConnections(this.#varve.url)
    this.observations = new Observations()
    this.knownAt = -Infinity
    this.#audits = 0
    this.dropCached()
    this.dropOldest()
  }

  /** Kills a worker; resolves when another has taken its place. */
  async killWorker (): Promise<void> {
    const { workers = [] } = await this.#status()
    const [{ pid } = { pid: 0 }] = workers
    if (pid === 0) return
    process.kill(pid, 'SIGKILL')
    await until(async () => {
      const { workers = [] } = await this.#status()
      return workers.every(worker => worker.pid !== pid) &&
        workers.filter(({ ready }) => ready).length === this.#setting.workers
    }, 'a worker takes the place of the killed one')
  }

  /** Returns the reason of a logged error; undefined without one. */
  get loggedError (): string | undefined {
    const error = this.#log.find(({ level, msg }) => Number(level) >= logErrorLevel && !expectedError.test(String(msg)))
    return error === undefined ? undefined : `logged: ${JSON.stringify(error)}`
  }

  /** Returns the numbers of audits by result; waits for all that were drawn, unless upstreams were in trouble. */
  async audits (wasTroubled: boolean): Promise<Record<AuditResult, number>> {
    const counts = { equal: 0, different: 0, rendering: 0, unavailable: 0 }
    const names = Object.keys(counts) as AuditResult[]
    const drawn = this.#setting.auditShare < 1 || wasTroubled ? 0 : this.#audits
    await until(async () => {
      for (const name of names) counts[name] = await this.metric(`varve_audit_total{result="${name}"}`)
      return names.reduce((sum, name) => sum + counts[name], 0) >= drawn
    }, `${drawn} hits are compared`)
    return counts
  }

  async metric (series: string): Promise<number> {
    const { body } = await sendRequest(this.#varve.adminUrl, '/metrics')
    return Number(body.split('\n').find(line => line.startsWith(`${series} `))?.slice(series.length + 1) ?? NaN)
  }

  async stop (): Promise<void> {
    this.wire.close()
    await this.#varve.stop({ drainMs: 0 })
  }

  async #status (): Promise<Status> {
    return JSON.parse((await sendRequest(this.#varve.adminUrl, '/status.json')).body) as Status
  }
}

async function startVarve (config: Config, log: Array<Record<string, unknown>>): Promise<Varve> {
  return await startServing(
    { config, isSandbox: false },
    pino({ level: 'info' }, { write: line => log.push(JSON.parse(line)) }),
    program
  )
}

function configOf (setting: FuzzSetting, { upstreams, redis, diskPath }: Surroundings, reloads: number): Config {
  const { microCacheMs, pinsPages, followMode, hasFastPath, memoryKb, auditShare, workers } = setting
  const config = configSchema.parse({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token },
    workers,
    // Workers write their lines to the output of the test.
    log: { level: workers > 1 ? 'silent' : 'info' },
    upstreams: upstreams.map(({ name, url }) => ({ name: `${name}-${reloads}`, url, timeoutMs: 3000 })),
    head: { pollMs },
    latest: { infoMs: microCacheMs, indexMs: microCacheMs, gasMs: microCacheMs },
    pages: { pinned: pinsPages },
    follow: { mode: followMode, maxAgeMs: followedMs, verify: 0.2 },
    audit: { share: auditShare, followedShare: auditShare },
    http: { fastPath: hasFastPath },
    cache: {
      // Raises the Redis timeout: a healthy Redis may be slow on a busy machine.
      ...(redis !== undefined && { redis: { url: redis.url, keyPrefix: redis.keyPrefix, timeoutMs: 1000 } }),
      ...(diskPath !== undefined && { disk: { path: diskPath, maxGb: 0.01 } })
    },
    // Waits only shortly for a version that does not exist yet.
    waitForVersion: { ms: 5 },
    // Disables load shedding: the case, its upstreams and varve share one event loop.
    limits: { loopLagMs: null }
  })
  // Uses less memory than an operator may configure, because a case stores little.
  const memory = memoryKb === undefined ? config.cache.memory : { maxMb: memoryKb / 1024 }
  return { ...config, cache: { ...config.cache, memory } }
}
