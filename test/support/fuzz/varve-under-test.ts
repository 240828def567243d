import { pino } from 'pino'
import { startServing, type Varve } from '../../../src/app/serve.js'
import { configSchema } from '../../../src/config/schema.js'
import { type AuditResult } from '../../../src/proxy/auditor.js'
import { classOf } from '../../../src/api/read.js'
import { sendRequest } from '../client.js'
import { until } from '../until.js'
import { type FuzzSetting } from './fuzz-case.js'
import { parsedReadOf } from './seen-responses.js'
import { type RawRequest } from './raw-request.js'
import { type FuzzPosition } from './fuzz-position.js'
import { outcomeOf } from './tally.js'
import { type RawResponse, RawConnections } from './raw-connections.js'

const token = 'fuzz'
const pollMs = 10
const logErrorLevel = 50

/** Where the varves of a case find each other. */
export interface RedisLocation {
  readonly url: string
  readonly keyPrefix: string
}

/** One varve of a case, and what it alone promises: its position, and what it has kept. */
export class VarveUnderTest {
  readonly wire: RawConnections
  readonly #varve: Varve
  readonly #log: ReadonlyArray<Record<string, unknown>>
  readonly #setting: FuzzSetting
  #kept = new Set<string>()
  #audits = 0
  /** What was last stamped on an answer of this one. */
  served: FuzzPosition | undefined

  private constructor (setting: FuzzSetting, varve: Varve, log: ReadonlyArray<Record<string, unknown>>) {
    this.#setting = setting
    this.#varve = varve
    this.#log = log
    this.wire = new RawConnections(varve.url)
  }

  static async start (
    setting: FuzzSetting,
    nodeUrl: string,
    meeting: RedisLocation | undefined
  ): Promise<VarveUnderTest> {
    const { heldMs, pinsPages, isObserving, memoryKb, auditShare } = setting
    const log: Array<Record<string, unknown>> = []
    const config = configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0', token },
      upstreams: [{ name: 'node', url: nodeUrl }],
      mode: isObserving ? 'observe' : 'serve',
      head: { pollMs },
      latest: { infoMs: heldMs, indexMs: heldMs, gasMs: heldMs },
      pages: { pinned: pinsPages },
      audit: { share: auditShare },
      // On a machine with much to do a Redis that is well may take its time.
      ...(meeting !== undefined &&
        { cache: { redis: { url: meeting.url, keyPrefix: meeting.keyPrefix, timeoutMs: 1000 } } }),
      // A version that is not there yet is waited for a moment and no more.
      waitForVersion: { ms: 5 },
      // The case, its node and varve have one loop.
      limits: { loopLagMs: null }
    })
    // Less than an operator may choose, since a case keeps little.
    const memory = memoryKb === undefined ? config.cache.memory : { maxMb: memoryKb / 1024 }
    const varve = await startServing(
      { config: { ...config, cache: { ...config.cache, memory } }, isSandbox: false },
      pino({ level: 'info' }, { write: line => log.push(JSON.parse(line)) }),
      { file: '', flags: [] }
    )
    return new VarveUnderTest(setting, varve, log)
  }

  /** Takes in what it answered. */
  observe (sent: RawRequest, { headers }: RawResponse, shown: FuzzPosition | undefined): void {
    const outcome = outcomeOf(headers['cache-status'])
    const read = parsedReadOf(sent)
    if (outcome === 'stored' && read?.minVersion === undefined) this.#kept.add(JSON.stringify(sent))
    // What nodes say of the moment alone cannot be read again.
    if (outcome?.endsWith('hit') === true && read !== undefined && classOf(read) !== 'moving') this.#audits++
    if (shown !== undefined) this.served = furthest(this.served, shown)
  }

  /** Whether the same request to the letter is answered from the cache, since there is room for all. */
  isCached (sent: RawRequest): boolean {
    return this.#setting.memoryKb === undefined && this.#kept.has(JSON.stringify(sent))
  }

  /** What was kept last, and need not be forgotten. */
  get lastCached (): RawRequest | undefined {
    const last = [...this.#kept].at(-1)
    return last === undefined ? undefined : JSON.parse(last) as RawRequest
  }

  /** Nothing need be kept any more. */
  forgetCached (): void {
    this.#kept = new Set()
  }

  /** What it takes the node to run. */
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

  /** Why it has logged an error; undefined where it has not. */
  get loggedError (): string | undefined {
    const error = this.#log.find(({ level }) => Number(level) >= logErrorLevel)
    return error === undefined ? undefined : `logged: ${JSON.stringify(error)}`
  }

  /** How many hits were compared with what the node says, by what came of it, when all that were drawn have been. */
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

/** The furthest of each half, whichever answer told it. */
function furthest (before: FuzzPosition | undefined, shown: FuzzPosition): FuzzPosition {
  if (before === undefined) return shown
  const head = shown.version > before.version ? shown : before
  return { height: head.height, version: head.version, oldest: Math.max(before.oldest, shown.oldest) }
}
