import { pino } from 'pino'
import { startVarve, type Varve } from '../../../src/app/serve.js'
import { configSchema } from '../../../src/config/schema.js'
import { type AuditResult } from '../../../src/proxy/auditor.js'
import { classOf } from '../../../src/api/read.js'
import { ask } from '../client.js'
import { until } from '../until.js'
import { type Setting } from './case.js'
import { readOf } from './memory.js'
import { type Sent } from './sent.js'
import { type Shown } from './shown.js'
import { outcomeOf } from './tally.js'
import { type Answered, Wire } from './wire.js'

const token = 'fuzz'
const pollMs = 10
const logErrorLevel = 50

/** Where the varves of a case find each other. */
export interface Meeting {
  readonly url: string
  readonly keyPrefix: string
}

/** One varve of a case, and what it alone promises: its position, and what it has kept. */
export class Front {
  readonly wire: Wire
  readonly #varve: Varve
  readonly #log: ReadonlyArray<Record<string, unknown>>
  readonly #setting: Setting
  #kept = new Set<string>()
  #audits = 0
  /** What was last stamped on an answer of this one. */
  shown: Shown | undefined

  private constructor (setting: Setting, varve: Varve, log: ReadonlyArray<Record<string, unknown>>) {
    this.#setting = setting
    this.#varve = varve
    this.#log = log
    this.wire = new Wire(varve.url)
  }

  static async start (setting: Setting, nodeUrl: string, meeting: Meeting | undefined): Promise<Front> {
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
    const varve = await startVarve(
      { config: { ...config, cache: { ...config.cache, memory } }, isSandbox: false },
      pino({ level: 'info' }, { write: line => log.push(JSON.parse(line)) }),
      { file: '', flags: [] }
    )
    return new Front(setting, varve, log)
  }

  /** Takes in what it answered. */
  saw (sent: Sent, { headers }: Answered, shown: Shown | undefined): void {
    const outcome = outcomeOf(headers['cache-status'])
    const read = readOf(sent)
    if (outcome === 'stored' && read?.atLeast === undefined) this.#kept.add(JSON.stringify(sent))
    // What nodes say of the moment alone cannot be read again.
    if (outcome?.endsWith('hit') === true && read !== undefined && classOf(read) !== 'moving') this.#audits++
    if (shown !== undefined) this.shown = furthest(this.shown, shown)
  }

  /** Whether the same request to the letter is answered from the cache, since there is room for all. */
  isKept (sent: Sent): boolean {
    return this.#setting.memoryKb === undefined && this.#kept.has(JSON.stringify(sent))
  }

  /** What was kept last, and need not be forgotten. */
  get keptLast (): Sent | undefined {
    const last = [...this.#kept].at(-1)
    return last === undefined ? undefined : JSON.parse(last) as Sent
  }

  /** Nothing need be kept any more. */
  forget (): void {
    this.#kept = new Set()
  }

  /** What it takes the node to run. */
  async release (): Promise<string | undefined> {
    const { upstreams } = JSON.parse((await ask(this.#varve.adminUrl, '/status.json')).body) as {
      upstreams: Array<{ release?: string }>
    }
    return upstreams[0]?.release
  }

  async purge (what: object): Promise<number> {
    const { status } = await ask(this.#varve.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(what)
    })
    return status
  }

  /** Why it has logged an error; undefined where it has not. */
  get fault (): string | undefined {
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

  async end (): Promise<void> {
    this.wire.close()
    await this.#varve.stop({ drainMs: 0 })
  }

  async #metrics (): Promise<string> {
    return (await ask(this.#varve.adminUrl, '/metrics')).body
  }
}

function valueIn (text: string, series: string): number {
  return Number(text.split('\n').find(line => line.startsWith(`${series} `))?.slice(series.length + 1) ?? NaN)
}

/** The furthest of each half, whichever answer told it. */
function furthest (before: Shown | undefined, shown: Shown): Shown {
  if (before === undefined) return shown
  const head = shown.version > before.version ? shown : before
  return { height: head.height, version: head.version, oldest: Math.max(before.oldest, shown.oldest) }
}
