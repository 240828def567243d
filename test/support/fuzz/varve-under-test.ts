import { pino } from 'pino'
import { startServing, type Varve } from '../../../src/app/serve.js'
import { configSchema } from '../../../src/config/schema.js'
import { type AuditResult } from '../../../src/proxy/audit-sampler.js'
import { classOf } from '../../../src/api/read.js'
import { sendRequest } from '../client.js'
import { type ModelRequest } from '../model/request.js'
import { Observations, type ServedPosition } from '../model/served-position.js'
import { outcomeOf } from '../model/tally.js'
import { until } from '../until.js'
import { type FuzzSetting } from './fuzz-case.js'
import { parsedReadOf } from './seen-responses.js'
import { type RawResponse, RawConnections } from './raw-connections.js'

const token = 'fuzz'
const pollMs = 10
// Short, so that the tail is read several times in a case.
const followedMs = 20
const logErrorLevel = 50

/** Redis in which the varves of a case meet. */
export interface RedisLocation {
  readonly url: string
  readonly keyPrefix: string
}

/** One varve of a case, with its own guarantees: served position and cached reads. */
export class VarveUnderTest {
  readonly wire: RawConnections
  readonly #varve: Varve
  readonly #log: ReadonlyArray<Record<string, unknown>>
  readonly #setting: FuzzSetting
  #cached = new Set<string>()
  #audits = 0
  readonly observations = new Observations()
  /** Furthest oldest height that a response was stamped with. */
  oldestHeight = 0

  private constructor (setting: FuzzSetting, varve: Varve, log: ReadonlyArray<Record<string, unknown>>) {
    this.#setting = setting
    this.#varve = varve
    this.#log = log
    this.wire = new RawConnections(varve.url)
  }

  static async start (
    setting: FuzzSetting,
    upstreamUrl: string,
    meeting: RedisLocation | undefined
  ): Promise<VarveUnderTest> {
    const { microCacheMs, pinsPages, followMode, hasFastPath, memoryKb, auditShare } = setting
    const log: Array<Record<string, unknown>> = []
    const config = configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0', token },
      upstreams: [{ name: 'node', url: upstreamUrl }],
      head: { pollMs },
      latest: { infoMs: microCacheMs, indexMs: microCacheMs, gasMs: microCacheMs },
      pages: { pinned: pinsPages },
      follow: { mode: followMode, maxAgeMs: followedMs, verify: 0.2 },
      audit: { share: auditShare, followedShare: auditShare },
      http: { fastPath: hasFastPath },
      // Raises the Redis timeout: a healthy Redis may be slow on a busy machine.
      ...(meeting !== undefined &&
        { cache: { redis: { url: meeting.url, keyPrefix: meeting.keyPrefix, timeoutMs: 1000 } } }),
      // Waits only shortly for a version that does not exist yet.
      waitForVersion: { ms: 5 },
      // Disables load shedding: the case, its upstream and varve share one event loop.
      limits: { loopLagMs: null }
    })
    // Uses less memory than an operator may configure, because a case stores little.
    const memory = memoryKb === undefined ? config.cache.memory : { maxMb: memoryKb / 1024 }
    const varve = await startServing(
      { config: { ...config, cache: { ...config.cache, memory } }, isSandbox: false },
      pino({ level: 'info' }, { write: line => log.push(JSON.parse(line)) }),
      { file: '', flags: [] }
    )
    return new VarveUnderTest(setting, varve, log)
  }

  /** Records a response. */
  observe (sent: ModelRequest, { headers }: RawResponse, served: ServedPosition | undefined): void {
    const outcome = outcomeOf(headers['cache-status'])
    const read = parsedReadOf(sent)
    // A latest read that is stored at the followed head may have changed at the next.
    const isHistory = read !== undefined && classOf(read) !== 'moving'
    if (outcome === 'stored' && isHistory && read.minVersion === undefined) this.#cached.add(JSON.stringify(sent))
    // Excludes moving reads, which cannot be repeated.
    if (outcome?.endsWith('hit') === true && isHistory) this.#audits++
    if (served === undefined) return
    this.observations.observe(served)
    this.oldestHeight = Math.max(this.oldestHeight, served.oldestHeight)
  }

  /** True if an identical request must be a hit, because memory has room for all. */
  isCached (sent: ModelRequest): boolean {
    return this.#setting.memoryKb === undefined && this.#cached.has(JSON.stringify(sent))
  }

  /** Last cached read, which may still be cached. */
  get lastCached (): ModelRequest | undefined {
    const last = [...this.#cached].at(-1)
    return last === undefined ? undefined : JSON.parse(last) as ModelRequest
  }

  /** Expects no cached reads from now on. */
  dropCached (): void {
    this.#cached = new Set()
  }

  /** Returns the release that varve has learned for its upstream. */
  async release (): Promise<string | undefined> {
    const { upstreams } = JSON.parse((await sendRequest(this.#varve.adminUrl, '/status.json')).body) as {
      upstreams: Array<{ release?: string }>
    }
    return upstreams[0]?.release
  }

  async purge (what: object): Promise<number> {
    const { status } = await sendRequest(this.#varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(what)
    })
    return status
  }

  /** Returns the reason of a logged error; undefined without one. */
  get loggedError (): string | undefined {
    const error = this.#log.find(({ level }) => Number(level) >= logErrorLevel)
    return error === undefined ? undefined : `logged: ${JSON.stringify(error)}`
  }

  /** Returns the numbers of audits by result, after all drawn audits have finished. */
  async audits (): Promise<Record<AuditResult, number>> {
    const counts = { equal: 0, different: 0, rendering: 0, unavailable: 0 }
    const names = Object.keys(counts) as AuditResult[]
    const drawn = this.#setting.auditShare < 1 ? 0 : this.#audits
    await until(async () => {
      const text = await this.#metrics()
      for (const name of names) counts[name] = valueIn(text, `varve_audit_total{result="${name}"}`)
      return names.reduce((sum, name) => sum + counts[name], 0) >= drawn
    }, `${drawn} hits are compared`)
    return counts
  }

  async evictions (): Promise<number> {
    return valueIn(await this.#metrics(), 'varve_cache_evictions_total{tier="memory"}')
  }

  async stop (): Promise<void> {
    this.wire.close()
    await this.#varve.stop({ drainMs: 0 })
  }

  async #metrics (): Promise<string> {
    return (await sendRequest(this.#varve.adminUrl, '/metrics')).body
  }
}

function valueIn (text: string, series: string): number {
  return Number(text.split('\n').find(line => line.startsWith(`${series} `))?.slice(series.length + 1) ?? NaN)
}
