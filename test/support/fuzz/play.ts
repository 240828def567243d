import { Ledger } from '../../../sandbox/ledger.js'
import { defaults, type Settings } from '../../../sandbox/options.js'
import { releases, type Sandbox, startSandbox } from '#sandbox'
import { until } from '../until.js'
import { type Case, type Change, type Setting, type Step, type Upgrade } from './case.js'
import { Front } from './front.js'
import { judge } from './judge.js'
import { type RedisAtHand, Shared } from './meeting.js'
import { Memory, readOf, upstreamOf } from './memory.js'
import { type Moment, Oracle } from './oracle.js'
import { meantBy } from './pinned.js'
import { difference } from './same.js'
import { type Sent } from './sent.js'
import { outcomeOf, redisHit, type Tally, wouldHit } from './tally.js'
import { type Answered, Wire } from './wire.js'

/** A case that is being played: a node, one varve in front of it or two, and the judge of what they answer. */
export class Play {
  readonly sandbox: Sandbox
  readonly oracle: Oracle
  readonly #fronts: readonly [Front, ...Front[]]
  readonly #shared: Shared | undefined
  readonly #node: Wire
  readonly #tally: Tally
  readonly #memory = new Memory()
  readonly #setting: Setting
  readonly #steps: Step[] = []
  readonly #releases: string[] = []

  private constructor (
    setting: Setting,
    sandbox: Sandbox,
    oracle: Oracle,
    fronts: readonly [Front, ...Front[]],
    shared: Shared | undefined,
    tally: Tally
  ) {
    this.#setting = setting
    this.sandbox = sandbox
    this.oracle = oracle
    this.#fronts = fronts
    this.#shared = shared
    this.#node = new Wire(sandbox.url)
    this.#tally = tally
    this.#releases.push(sandbox.ledger.release)
  }

  static async start (setting: Setting, tally: Tally, redis: RedisAtHand): Promise<Play> {
    const {
      startVersion,
      prunedEvents,
      blockBcs,
      isShared,
      blocks,
      prunedBlocks,
      eventsMax,
      modulesPage,
      blockTransactionsMax
    } = setting
    const settings: Settings = {
      ...defaults,
      blocks,
      prunedBlocks,
      eventsMax,
      modulesPage,
      blockTransactionsMax,
      startVersion: BigInt(startVersion),
      blockMs: 0,
      release: releases.events
    }
    const sandbox = await startSandbox(settings)
    const archive = new Ledger({ ...settings, release: releases.events, prunedBlocks: 0, windowBlocks: 100_000_000 })
    for (const ledger of [sandbox.ledger, archive]) Object.assign(ledger, { prunedEvents, blockBcs })
    const shared = isShared ? new Shared(await redis()) : undefined
    const first = await Front.start(setting, sandbox.url, shared)
    const others = shared === undefined ? [] : [await Front.start(setting, sandbox.url, shared)]
    await shared?.joined(2)
    return new Play(setting, sandbox, new Oracle(archive, settings), [first, ...others], shared, tally)
  }

  /** What has been played so far, to the letter. */
  get case (): Case {
    return { setting: this.#setting, steps: this.#steps }
  }

  /** Takes one step; throws where an answer is wrong. Resolves with the answers, in order. */
  async take (step: Step): Promise<readonly Answered[]> {
    this.#steps.push(step)
    if ('ask' in step) return await this.#ask(this.#front(step.to), step.ask, step.meanwhile)
    if ('purge' in step) await this.#purge(this.#front(step.to), step.purge)
    else this.#change(step)
    if ('release' in step) await this.#untilNoticed()
    return []
  }

  /** Throws where what was told of the answers, rather than in them, is wrong. */
  async finish (): Promise<void> {
    for (const front of this.#fronts) {
      for (const [result, count] of Object.entries(await front.audits())) {
        this.#tally.note(`audit ${result}`, count)
        if (result === 'different' && count > 0) {
          throw new Error(front.fault ?? `${count} hits were found to be different`)
        }
      }
      if (this.#setting.memoryKb !== undefined) this.#tally.note('evicted', await front.evictions())
      if (front.fault !== undefined) throw new Error(front.fault)
    }
  }

  async end (): Promise<void> {
    this.#node.close()
    await Promise.all(this.#fronts.map(async front => {
      await front.end()
    }))
    await Promise.all([this.sandbox.close(), this.#shared?.clear()])
  }

  #front (to: number | undefined): Front {
    return this.#fronts[to ?? 0] ?? this.#fronts[0]
  }

  #change (change: Change | Upgrade): void {
    if ('release' in change) return this.#nextRelease()
    this.#tally.note('grow' in change ? 'the ledger grew' : 'the ledger was pruned')
    if ('grow' in change) {
      for (const ledger of [this.sandbox.ledger, this.oracle.archive]) ledger.grow(change.grow)
    } else this.sandbox.ledger.pruneTo(Number(this.sandbox.ledger.oldest.blockHeight) + change.prune)
  }

  async #ask (front: Front, requests: readonly Sent[], meanwhile?: Change | Upgrade): Promise<readonly Answered[]> {
    const from = this.#moment
    const floor = front.shown
    const kept = requests.map(sent => front.isKept(sent))
    const answers = requests.map(async sent => await front.wire.send(sent))
    if (meanwhile !== undefined) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
      this.#change(meanwhile)
    }
    const gots = await Promise.all(answers)
    const to = this.#moment
    const meant = requests.map(meantBy)
    const directs = await Promise.all(meant.map(async ({ sent }) => await this.#node.send(sent)))
    for (const [at, sent] of requests.entries()) {
      const [got, direct, as] = [gots[at], directs[at], meant[at]]
      if (got === undefined || direct === undefined || as === undefined) continue
      this.#trust(as.sent, direct, to)
      const { wrong, shown } = judge(
        {
          sent,
          meant: as,
          got,
          direct,
          from,
          to,
          floor,
          releases: this.#releases,
          wasKept: kept[at] === true,
          setting: this.#setting
        },
        this.oracle,
        this.#memory
      )
      if (wrong !== undefined) throw new Error(`${wrong}: ${JSON.stringify(sent)}${explained(sent)}`)
      this.#count(sent, got)
      front.saw(sent, got, shown)
    }
    if (meanwhile !== undefined && 'release' in meanwhile) await this.#untilNoticed()
    if (front.fault !== undefined) throw new Error(front.fault)
    return gots
  }

  // The judge goes by the ledger's own functions, which must say what the node says on the wire.
  #trust (sent: Sent, direct: Answered, to: Moment): void {
    const isRead = direct.headers['content-type'] !== undefined && sent.isChunked !== true &&
      !sent.target.includes('/info')
    const differs = isRead ? difference(sent, direct, this.oracle.says(sent, to)) : undefined
    if (differs !== undefined) throw new Error(`the oracle itself is wrong, ${differs}: ${JSON.stringify(sent)}`)
  }

  #count (sent: Sent, got: Answered): void {
    const status = got.headers['cache-status']
    const outcome = outcomeOf(status) ?? 'hung up'
    this.#tally.count(outcome)
    this.#tally.note(`status ${got.status}`)
    if (outcome === 'hit' || outcome === 'pruned hit') this.#tally.note(`hit of ${readOf(sent)?.endpoint.name}`)
    if (status === redisHit) {
      for (const what of ['redis hit', `redis hit of ${readOf(sent)?.endpoint.name}`]) this.#tally.note(what)
    }
    if (status === wouldHit) this.#tally.note('would be a hit')
    if (meantBy(sent).pinned !== undefined && got.status === 200) {
      this.#tally.note(outcome.endsWith('hit') ? 'a pinned page from the cache' : 'a pinned page')
    }
  }

  get #moment (): Moment {
    const { ledger } = this.sandbox
    return { height: ledger.height, oldest: Number(ledger.oldest.blockHeight), release: ledger.release }
  }

  #nextRelease (): void {
    const all = Object.values(releases)
    const next = all[all.findIndex(release => release === this.sandbox.ledger.release) + 1]
    if (next === undefined) return
    this.#tally.note('the node was upgraded')
    this.sandbox.ledger.release = next
    this.#releases.push(next)
  }

  /** Returns when each varve has noticed what the node runs. */
  async #untilNoticed (): Promise<void> {
    for (const front of this.#fronts) {
      await until(async () => await front.release() === this.sandbox.ledger.release, 'varve knows what the node runs')
    }
    await this.#forget()
  }

  /** Returns when each varve has heard of what has become of all; it need not have anything from before. */
  async #forget (): Promise<void> {
    await this.#shared?.agreed()
    for (const front of this.#fronts) front.forget()
  }

  /** What is purged is asked for again: no varve may have it. */
  async #purge (front: Front, what: Extract<Step, { purge: unknown }>['purge']): Promise<void> {
    this.#tally.note('a purge')
    // One alone: of two the second may be of the block that was read again for the first.
    const known = [front, ...this.#fronts].flatMap(({ keptLast }) => keptLast ?? []).slice(0, 1)
    const status = await front.purge(what === 'all' ? { all: true } : what)
    if (status !== 200 && status !== 400) throw new Error(`the purge was answered with ${status}`)
    await this.#forget()
    if (status === 200) {
      for (const sent of what === 'all' ? known : [sentOf(what)]) await this.#gone(sent)
    }
  }

  async #gone (sent: Sent): Promise<void> {
    for (const front of this.#fronts) {
      const [got] = await this.#ask(front, [sent])
      const status = got?.headers['cache-status']
      const isHistory = (readOf(sent)?.speaksOf ?? readOf(sent)?.page) !== undefined
      // What the first one then reads the other may have of it.
      if (isHistory && outcomeOf(status)?.endsWith('hit') === true && status !== redisHit) {
        throw new Error(`${status} of what was purged: ${JSON.stringify(sent)}`)
      }
    }
  }
}

const sentOf = ({ method, url, body }: Exclude<Extract<Step, { purge: unknown }>['purge'], 'all'>): Sent => ({
  method,
  target: url,
  headers: body === undefined ? [] : [['content-type', 'application/json']],
  ...(body !== undefined && { body })
})

function explained (sent: Sent): string {
  const read = readOf(sent)
  return read === undefined ? '' : ` (upstream ${upstreamOf(read)})`
}
