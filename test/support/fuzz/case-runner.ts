import { releases, type Sandbox, startSandbox } from '#sandbox'
import { Chain } from '../model/chain.js'
import { expectedResponse } from '../model/oracle.js'
import { unpinRequest } from '../model/pinned-cursors.js'
import { type ModelRequest } from '../model/request.js'
import { responseDifference } from '../model/response-difference.js'
import { followedHit, outcomeOf, redisHit, type Tally } from '../model/tally.js'
import { until } from '../until.js'
import { type FuzzCase, type LedgerChange, type FuzzSetting, type FuzzStep, type ReleaseUpgrade } from './fuzz-case.js'
import { VarveUnderTest } from './varve-under-test.js'
import { type ExactMoment, ExactWorld } from './exact-world.js'
import { type RedisProvider, CaseRedis } from './case-redis.js'
import { parsedReadOf, upstreamLineOf } from './seen-responses.js'
import { type RawResponse, RawConnections } from './raw-connections.js'

/** A running case: an upstream, one or two varves, and a judge of their responses. */
export class CaseRunner {
  readonly sandbox: Sandbox
  readonly chain: Chain
  readonly #world: ExactWorld
  readonly #varves: readonly [VarveUnderTest, ...VarveUnderTest[]]
  readonly #shared: CaseRedis | undefined
  readonly #upstream: RawConnections
  readonly #tally: Tally
  readonly #setting: FuzzSetting
  readonly #steps: FuzzStep[] = []
  readonly #releases: string[] = []

  private constructor (
    setting: FuzzSetting,
    sandbox: Sandbox,
    chain: Chain,
    fronts: readonly [VarveUnderTest, ...VarveUnderTest[]],
    shared: CaseRedis | undefined,
    tally: Tally
  ) {
    this.#setting = setting
    this.sandbox = sandbox
    this.chain = chain
    this.#world = new ExactWorld(chain, setting)
    this.#varves = fronts
    this.#shared = shared
    this.#upstream = new RawConnections(sandbox.url)
    this.#tally = tally
    this.#releases.push(sandbox.ledger.release)
  }

  static async start (setting: FuzzSetting, tally: Tally, redis: RedisProvider): Promise<CaseRunner> {
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
    const settings = {
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
    const chain = new Chain(settings, { prunedEvents, blockBcs })
    Object.assign(sandbox.ledger, { prunedEvents, blockBcs })
    const shared = isShared ? new CaseRedis(await redis()) : undefined
    const first = await VarveUnderTest.start(setting, sandbox.url, shared)
    const others = shared === undefined ? [] : [await VarveUnderTest.start(setting, sandbox.url, shared)]
    await shared?.untilJoined(2)
    return new CaseRunner(setting, sandbox, chain, [first, ...others], shared, tally)
  }

  /** Steps run so far, exactly. */
  get playedCase (): FuzzCase {
    return { setting: this.#setting, steps: this.#steps }
  }

  /** Runs one step; resolves with the responses in order, throws if one is wrong. */
  async runStep (step: FuzzStep): Promise<readonly RawResponse[]> {
    this.#steps.push(step)
    if ('requests' in step) return await this.#sendAll(this.#varveAt(step.to), step.requests, step.meanwhile)
    if ('purge' in step) await this.#purge(this.#varveAt(step.to), step.purge)
    else this.#change(step)
    if ('release' in step) await this.#untilNoticed()
    return []
  }

  /** Throws if logs or metrics about the responses are wrong. */
  async finish (): Promise<void> {
    for (const front of this.#varves) {
      for (const [result, count] of Object.entries(await front.audits())) {
        this.#tally.note(`audit ${result}`, count)
        if (result === 'different' && count > 0) {
          throw new Error(front.loggedError ?? `${count} hits were found to be different`)
        }
      }
      if (this.#setting.memoryKb !== undefined) this.#tally.note('evicted', await front.evictions())
      if (front.loggedError !== undefined) throw new Error(front.loggedError)
    }
  }

  async stop (): Promise<void> {
    this.#upstream.close()
    await Promise.all(this.#varves.map(async front => {
      await front.stop()
    }))
    await Promise.all([this.sandbox.close(), this.#shared?.clear()])
  }

  #varveAt (to: number | undefined): VarveUnderTest {
    return this.#varves[to ?? 0] ?? this.#varves[0]
  }

  #change (change: LedgerChange | ReleaseUpgrade): void {
    if ('release' in change) return this.#nextRelease()
    this.#tally.note('grow' in change ? 'the ledger grew' : 'the ledger was pruned')
    if ('grow' in change) {
      for (const grown of [this.sandbox.ledger, this.chain]) grown.grow(change.grow)
    } else this.sandbox.ledger.pruneTo(Number(this.sandbox.ledger.oldest.blockHeight) + change.prune)
  }

  async #sendAll (
    front: VarveUnderTest,
    requests: readonly ModelRequest[],
    meanwhile?: LedgerChange | ReleaseUpgrade
  ): Promise<readonly RawResponse[]> {
    const from = this.#moment
    const { observations: { floor: servedFloor }, oldestHeight: oldestFloor } = front
    const cachedBefore = requests.map(sent => front.isCached(sent))
    const responses = requests.map(async sent => await front.wire.send(sent))
    if (meanwhile !== undefined) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
      this.#change(meanwhile)
    }
    const gots = await Promise.all(responses)
    const to = this.#moment
    const unpinned = requests.map(unpinRequest)
    const directs = await Promise.all(unpinned.map(async ({ request }) => await this.#upstream.send(request)))
    for (const [at, request] of requests.entries()) {
      const [response, upstreamResponse, as] = [gots[at], directs[at], unpinned[at]]
      if (response === undefined || upstreamResponse === undefined || as === undefined) continue
      this.#trust(as.request, upstreamResponse, to)
      const { failure, served } = this.#world.judge({
        request,
        unpinned: as,
        response,
        upstreamResponse,
        from,
        to,
        servedFloor,
        oldestFloor,
        releases: this.#releases,
        wasCached: () => cachedBefore[at] === true
      })
      if (failure !== undefined) throw new Error(`${failure}: ${JSON.stringify(request)}${explained(request)}`)
      this.#count(request, response)
      front.observe(request, response, served)
    }
    if (meanwhile !== undefined && 'release' in meanwhile) await this.#untilNoticed()
    if (front.loggedError !== undefined) throw new Error(front.loggedError)
    return gots
  }

  // Checks that the ledger's functions, which the judge uses, agree with the upstream on the wire.
  #trust (sent: ModelRequest, direct: RawResponse, to: ExactMoment): void {
    const isRead = direct.headers['content-type'] !== undefined && sent.isChunked !== true &&
      !sent.target.includes('/info')
    const differs = isRead
      ? responseDifference(sent, direct, expectedResponse(this.chain.current, sent, to))
      : undefined
    if (differs !== undefined) throw new Error(`the oracle itself is wrong, ${differs}: ${JSON.stringify(sent)}`)
  }

  #count (sent: ModelRequest, got: RawResponse): void {
    const status = got.headers['cache-status']
    const outcome = outcomeOf(status) ?? 'hung up'
    this.#tally.count(outcome)
    this.#tally.note(`status ${got.status}`)
    if (outcome === 'hit' || outcome === 'pruned hit') this.#tally.note(`hit of ${parsedReadOf(sent)?.endpoint.name}`)
    if (status === redisHit) {
      for (const what of ['redis hit', `redis hit of ${parsedReadOf(sent)?.endpoint.name}`]) this.#tally.note(what)
    }
    if (status === followedHit) this.#tally.note('a followed hit')
    if (unpinRequest(sent).pinned !== undefined && got.status === 200) {
      this.#tally.note(outcome.endsWith('hit') ? 'a pinned page from the cache' : 'a pinned page')
    }
  }

  get #moment (): ExactMoment {
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

  /** Resolves when each varve has noticed the upstream's release. */
  async #untilNoticed (): Promise<void> {
    for (const front of this.#varves) {
      await until(async () => await front.release() === this.sandbox.ledger.release, 'varve knows what the node runs')
    }
    await this.#dropCache()
  }

  /** Resolves when each varve has synced; afterwards nothing counts as cached. */
  async #dropCache (): Promise<void> {
    await this.#shared?.untilSynced()
    for (const front of this.#varves) front.dropCached()
  }

  /** Reads purged targets again: no varve may still have them. */
  async #purge (front: VarveUnderTest, what: Extract<FuzzStep, { purge: unknown }>['purge']): Promise<void> {
    this.#tally.note('a purge')
    // Takes a single read: the second of two may be in a block that the first has fetched again.
    const known = [front, ...this.#varves].flatMap(({ lastCached }) => lastCached ?? []).slice(0, 1)
    const status = await front.purge(what === 'all' ? { all: true } : what)
    if (status !== 200 && status !== 400) throw new Error(`the purge returned ${status}`)
    await this.#dropCache()
    if (status === 200) {
      for (const sent of what === 'all' ? known : [sentOf(what)]) await this.#gone(sent)
    }
  }

  async #gone (sent: ModelRequest): Promise<void> {
    for (const front of this.#varves) {
      const [got] = await this.#sendAll(front, [sent])
      const status = got?.headers['cache-status']
      const isHistory = (parsedReadOf(sent)?.requestedVersion ?? parsedReadOf(sent)?.page) !== undefined
      // Allows a hit in Redis: the other varve may have what the first one fetched after the purge.
      if (isHistory && outcomeOf(status)?.endsWith('hit') === true && status !== redisHit) {
        throw new Error(`${status} of what was purged: ${JSON.stringify(sent)}`)
      }
    }
  }
}

const sentOf = (
  { method, url, body }: Exclude<Extract<FuzzStep, { purge: unknown }>['purge'], 'all'>
): ModelRequest => ({
  method,
  target: url,
  headers: body === undefined ? [] : [['content-type', 'application/json']],
  ...(body !== undefined && { body })
})

function explained (sent: ModelRequest): string {
  const read = parsedReadOf(sent)
  return read === undefined ? '' : ` (upstream ${upstreamLineOf(read)})`
}
