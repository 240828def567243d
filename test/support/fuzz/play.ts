import { setTimeout as pause } from 'node:timers/promises'
import { pino } from 'pino'
import { startVarve, type Varve } from '../../../src/cli/serve.js'
import { configSchema } from '../../../src/config/schema.js'
import { Ledger } from '../../../src/sandbox/ledger.js'
import { defaults, type Settings } from '../../../src/sandbox/options.js'
import { releases, type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.js'
import { ask } from '../client.js'
import { until } from '../until.js'
import { type Case, type Change, type Setting, type Step } from './case.js'
import { judge } from './judge.js'
import { Memory, readOf, upstreamOf } from './memory.js'
import { type Moment, Oracle } from './oracle.js'
import { difference } from './same.js'
import { headerOf, type Sent } from './sent.js'
import { type Shown } from './shown.js'
import { outcomeOf, type Tally } from './tally.js'
import { type Answered, Wire } from './wire.js'

const token = 'fuzz'
const pollMs = 10
const logErrorLevel = 50

/** A case that is being played: a node, a varve in front of it, and the judge of what it answers. */
export class Play {
  readonly sandbox: Sandbox
  readonly oracle: Oracle
  readonly #varve: Varve
  readonly #wires: { readonly varve: Wire, readonly node: Wire }
  readonly #log: Array<Record<string, unknown>>
  readonly #tally: Tally
  readonly #memory = new Memory()
  readonly #setting: Setting
  readonly #steps: Step[] = []
  readonly #releases: string[] = []
  #shown: Shown | undefined

  private constructor (setting: Setting, sandbox: Sandbox, oracle: Oracle, varve: Varve, log: Array<Record<string, unknown>>, tally: Tally) {
    this.#setting = setting
    this.sandbox = sandbox
    this.oracle = oracle
    this.#varve = varve
    this.#wires = { varve: new Wire(varve.url), node: new Wire(sandbox.url) }
    this.#log = log
    this.#tally = tally
    this.#releases.push(sandbox.ledger.release)
  }

  static async start (setting: Setting, tally: Tally): Promise<Play> {
    const { startVersion, heldMs, prunedEvents, blockBcs, ...rest } = setting
    const settings: Settings = { ...defaults, ...rest, startVersion: BigInt(startVersion), blockMs: 0, release: releases.events }
    const sandbox = await startSandbox(settings)
    const archive = new Ledger({ ...settings, release: releases.events, prunedBlocks: 0, windowBlocks: 100_000_000 })
    for (const ledger of [sandbox.ledger, archive]) Object.assign(ledger, { prunedEvents, blockBcs })
    const log: Array<Record<string, unknown>> = []
    const config = configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0', token },
      upstreams: [{ name: 'node', url: sandbox.url }],
      head: { pollMs },
      latest: { infoMs: heldMs, gasMs: heldMs },
      // A version that is not there yet is waited for a moment and no more.
      waitForVersion: { ms: 5 }
    })
    const varve = await startVarve({ config, given: [] }, pino({ level: 'info' }, { write: line => log.push(JSON.parse(line)) }), { file: '', flags: [] })
    return new Play(setting, sandbox, new Oracle(archive, settings), varve, log, tally)
  }

  /** What has been played so far, to the letter. */
  get case (): Case {
    return { setting: this.#setting, steps: this.#steps }
  }

  /** What was last stamped on an answer. */
  get shown (): Shown | undefined {
    return this.#shown
  }

  /** Takes one step; throws where an answer is wrong. Resolves with the answers, in order. */
  async take (step: Step): Promise<readonly Answered[]> {
    this.#steps.push(step)
    if ('ask' in step) return await this.#ask(step.ask, step.meanwhile)
    if ('release' in step) await this.#upgrade()
    else if ('purge' in step) await this.#purge(step.purge)
    else this.#change(step)
    return []
  }

  async end (): Promise<void> {
    for (const wire of Object.values(this.#wires)) wire.close()
    await this.#varve.stop({ drainMs: 0 })
    await this.sandbox.close()
  }

  #change (change: Change): void {
    this.#tally.note('grow' in change ? 'the ledger grew' : 'the ledger was pruned')
    if ('grow' in change) for (const ledger of [this.sandbox.ledger, this.oracle.archive]) ledger.grow(change.grow)
    else this.sandbox.ledger.pruneTo(Number(this.sandbox.ledger.oldest.blockHeight) + change.prune)
  }

  async #ask (requests: readonly Sent[], meanwhile: Change | undefined): Promise<readonly Answered[]> {
    const from = this.#moment
    const floor = this.#shown
    const kept = requests.map(sent => this.#memory.isKept(sent))
    const answers = requests.map(async sent => await this.#wires.varve.send(sent))
    if (meanwhile !== undefined) {
      await new Promise(resolve => { setImmediate(resolve) })
      this.#change(meanwhile)
    }
    const gots = await Promise.all(answers)
    const to = this.#moment
    const directs = await Promise.all(requests.map(async sent => await this.#wires.node.send(sent)))
    for (const [at, sent] of requests.entries()) {
      const [got, direct] = [gots[at], directs[at]]
      if (got === undefined || direct === undefined) continue
      this.#trust(sent, direct, to)
      const { wrong, shown } = judge({ sent, got, direct, from, to, floor, releases: this.#releases, wasKept: kept[at] === true }, this.oracle, this.#memory)
      if (wrong !== undefined) throw new Error(`${wrong}: ${JSON.stringify(sent)}${explained(sent)}`)
      this.#count(sent, got)
      if (shown !== undefined) this.#shown = furthest(this.#shown, shown)
    }
    const error = this.#log.find(({ level }) => Number(level) >= logErrorLevel)
    if (error !== undefined) throw new Error(`logged: ${JSON.stringify(error)}`)
    return gots
  }

  // The judge goes by the ledger's own functions, which must say what the node says on the wire.
  #trust (sent: Sent, direct: Answered, to: Moment): void {
    const isRead = direct.headers['content-type'] !== undefined && sent.isChunked !== true && !sent.target.includes('/info')
    const differs = isRead ? difference(sent, direct, this.oracle.says(sent, to)) : undefined
    if (differs !== undefined) throw new Error(`the oracle itself is wrong, ${differs}: ${JSON.stringify(sent)}`)
  }

  #count (sent: Sent, got: Answered): void {
    const outcome = outcomeOf(got.headers['cache-status']) ?? 'hung up'
    this.#tally.count(outcome)
    this.#tally.note(`status ${got.status}`)
    if (outcome === 'hit' || outcome === 'pruned hit') this.#tally.note(`hit of ${readOf(sent)?.endpoint.name}`)
    if (outcome === 'stored' && headerOf(sent, 'x-varve-min-ledger-version') === undefined) this.#memory.keep(sent)
  }

  get #moment (): Moment {
    const { ledger } = this.sandbox
    return { height: ledger.height, oldest: Number(ledger.oldest.blockHeight), release: ledger.release }
  }

  /** Returns when varve must have noticed: when the node has been asked for its index once more after an answer of the new release. */
  async #upgrade (): Promise<void> {
    const all = Object.values(releases)
    const next = all[all.findIndex(release => release === this.sandbox.ledger.release) + 1]
    if (next === undefined) return
    this.#tally.note('the node was upgraded')
    const polls = this.sandbox.asked.of('index')
    this.sandbox.ledger.release = next
    this.#releases.push(next)
    await until(() => this.sandbox.asked.of('index') >= polls + 2, 'varve polls the index')
    await pause(1)
    this.#memory.forget()
  }

  async #purge (what: Extract<Step, { purge: unknown }>['purge']): Promise<void> {
    this.#tally.note('a purge')
    const body = JSON.stringify(what === 'all' ? { all: true } : what)
    const { status } = await ask(this.#varve.adminUrl, '/purge', { method: 'POST', headers: { authorization: `Bearer ${token}` }, body })
    if (status !== 200 && status !== 400) throw new Error(`the purge was answered with ${status}`)
    this.#memory.forget()
  }
}

/** The furthest of each half, whichever answer told it. */
function furthest (before: Shown | undefined, shown: Shown): Shown {
  if (before === undefined) return shown
  const head = shown.version > before.version ? shown : before
  return { height: head.height, version: head.version, oldest: Math.max(before.oldest, shown.oldest) }
}

function explained (sent: Sent): string {
  const read = readOf(sent)
  return read === undefined ? '' : ` (upstream ${upstreamOf(read)})`
}
