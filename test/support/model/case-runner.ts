import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { releases, type Sandbox, startSandbox } from '#sandbox'
import { until } from '../until.js'
import { CaseRedis, type RedisProvider } from './case-redis.js'
import { Chain } from './chain.js'
import { type FuzzCase, type FuzzSetting, type FuzzStep, type PurgedRead, type WorldChange } from './fuzz-case.js'
import { Judge } from './judge.js'
import { parsedReadOf } from './request.js'
import { unpinRequest } from './request.js'
import { RawConnections, type RawResponse } from './raw-connections.js'
import { type ModelRequest } from './request.js'
import { followedHit, outcomeOf, redisHit, diskHit, type Tally } from './tally.js'
import { FaultyUpstream } from './upstream.js'
import { followedMs, type Surroundings, VarveUnderTest } from './varve-under-test.js'

type Requests = Extract<FuzzStep, { requests: unknown }>

// A chain with more blocks is recognised by what was read of ours; what failed in trouble is read again each second.
const provenMs = 2000
// Varves that share a Redis count the release of one that has stopped for ten seconds.
const forgottenMs = 11_000
const leastHeight = 100
const mostPerRequest = 8

/** A running case: upstreams, one or two varves, and a judge of their responses. */
export class CaseRunner {
  readonly chain: Chain
  readonly upstreams: readonly FaultyUpstream[]
  readonly #judge: Judge
  readonly #varves: VarveUnderTest[] = []
  readonly #surroundings: Surroundings
  readonly #shared: CaseRedis | undefined
  readonly #node: Sandbox
  readonly #wire: RawConnections
  readonly #tally: Tally
  readonly #setting: FuzzSetting
  readonly #steps: FuzzStep[] = []
  #provenAt = -Infinity
  #forgottenAt = -Infinity
  #wasTroubled = false

  private constructor (
    setting: FuzzSetting,
    chain: Chain,
    node: Sandbox,
    surroundings: Surroundings,
    shared: CaseRedis | undefined,
    tally: Tally
  ) {
    this.#setting = setting
    this.chain = chain
    this.upstreams = surroundings.upstreams
    this.#surroundings = surroundings
    this.#shared = shared
    this.#node = node
    this.#wire = new RawConnections(node.url)
    this.#tally = tally
    const { pinsPages, followMode } = setting
    this.#judge = new Judge(
      chain,
      { pinsPages, maxAgeMs: followMode === 'on' ? followedMs : 0 },
      time => this.upstreams.map(upstream => upstream.statesSince(time))
    )
  }

  static async start (setting: FuzzSetting, tally: Tally, redis: RedisProvider): Promise<CaseRunner> {
    const { startVersion, prunedEvents, blockBcs, blocks, prunedBlocks, eventsMax, modulesPage, blockTransactionsMax } =
      setting
    const settings = { blocks, eventsMax, modulesPage, blockTransactionsMax, startVersion: BigInt(startVersion) }
    const chain = new Chain(settings, { prunedEvents, blockBcs })
    const upstreams: FaultyUpstream[] = []
    for (let nth = 0; nth < setting.upstreams; nth++) {
      const upstream = await FaultyUpstream.start(`node-${nth}`, chain, { prunedEvents, blockBcs }, releases.events)
      // Gives each upstream another window.
      upstream.pruneTo(prunedBlocks * (nth + 1))
      upstreams.push(upstream)
    }
    const shared = setting.isShared ? new CaseRedis(await redis()) : undefined
    const diskPath = setting.hasDisk ? await mkdtemp(join(tmpdir(), 'varve-fuzz-')) : undefined
    const surroundings = { upstreams, redis: shared, diskPath }
    const node = await startSandbox({ blocks: 1, blockMs: 0 })
    const runner = new CaseRunner(setting, chain, node, surroundings, shared, tally)
    for (let nth = 0; nth < (setting.isShared ? 2 : 1); nth++) {
      runner.#varves.push(
        await VarveUnderTest.start(setting, {
          ...surroundings,
          diskPath: diskPath === undefined ? undefined : join(diskPath, String(nth))
        })
      )
    }
    await shared?.untilJoined(runner.#varves.length)
    await runner.#settle()
    return runner
  }

  /** Steps run so far, exactly. */
  get playedCase (): FuzzCase {
    return { setting: this.#setting, steps: this.#steps }
  }

  /** Runs one step; resolves with the responses in order, throws if one is wrong. */
  async runStep (step: FuzzStep): Promise<readonly RawResponse[]> {
    this.#steps.push(step)
    let responses: readonly RawResponse[] = []
    if ('requests' in step) responses = await this.#sendAll(this.#varveAt(step.to), step)
    else if ('purge' in step) await this.#purge(this.#varveAt(step.to), step.purge)
    else if ('settle' in step) await this.#settle()
    else if ('redis' in step) await this.#failRedis(step.redis)
    else if ('reload' in step) await this.#varveAt(step.to).reload()
    else if ('killWorker' in step) await this.#killWorker()
    else if ('restart' in step) {
      this.#tally.note('a restart')
      await this.#varveAt(step.to).restart(async () => {
        if (step.meanwhile !== undefined) await this.#change(step.meanwhile)
      })
      this.#forgottenAt = performance.now() + forgottenMs
      await this.#join()
      await this.#settle()
    } else if ('reset' in step && step.reset > 0) await this.#lengthen(step)
    else await this.#change(step)
    const change = 'meanwhile' in step ? step.meanwhile : step
    if (change !== undefined && 'release' in change) await this.#settleRelease()
    return responses
  }

  /** Throws if logs or metrics about the responses are wrong. */
  async finish (): Promise<void> {
    for (const varve of this.#varves) {
      for (const [result, count] of Object.entries(await varve.audits(this.#wasTroubled))) {
        this.#tally.note(`audit ${result}`, count)
        if (result === 'different' && count > 0) {
          throw new Error(varve.loggedError ?? `${count} audits found differences`)
        }
      }
      if (this.#setting.memoryKb !== undefined) {
        this.#tally.note('evicted', await varve.metric('varve_cache_evictions_total{tier="memory"}'))
      }
      if (varve.loggedError !== undefined) throw new Error(varve.loggedError)
    }
  }

  async stop (): Promise<void> {
    this.#wire.close()
    await Promise.all(this.#varves.map(async varve => {
      await varve.stop()
    }))
    await Promise.all([this.#node, ...this.upstreams].map(async each => {
      await each.close()
    }))
    await this.#shared?.clear()
    const { diskPath } = this.#surroundings
    if (diskPath !== undefined) await rm(diskPath, { recursive: true, force: true })
  }

  #varveAt (to: number | undefined): VarveUnderTest {
    const varve = this.#varves[to ?? 0] ?? this.#varves[0]
    if (varve === undefined) throw new Error('no varve runs')
    return varve
  }

  async #change (change: WorldChange): Promise<void> {
    if ('grow' in change) {
      this.#tally.note('the ledger grew')
      this.chain.grow(change.grow)
      for (const upstream of this.upstreams) upstream.grow()
      return
    }
    if ('reset' in change) return await this.#reset(change.reset)
    const chosen = change.upstream === undefined ? undefined : this.upstreams[change.upstream % this.upstreams.length]
    const upstreams = chosen === undefined ? this.upstreams : [chosen]
    if ('prune' in change) {
      this.#tally.note('the ledger was pruned')
      for (const upstream of upstreams) upstream.pruneTo(upstream.state.oldest + change.prune)
    } else if ('release' in change) {
      this.#tally.note('the node was upgraded')
      for (const upstream of upstreams) upstream.upgrade(releaseAfter(upstream.state.release))
    } else for (const upstream of upstreams) await this.#afflict(upstream, change)
  }

  async #afflict (upstream: FaultyUpstream, change: WorldChange): Promise<void> {
    const what = 'happens' in change ? change.happens : 'lag' in change ? 'lag' : 'fault'
    this.#tally.note(`fault: ${what}`)
    this.#wasTroubled = true
    if ('lag' in change) upstream.lag(change.lag)
    if ('fault' in change) upstream.fail(change.fault)
    if (!('happens' in change)) return
    switch (change.happens) {
      case 'kill':
        return await upstream.kill()
      case 'freeze':
        return upstream.freeze()
      case 'stall':
        return upstream.stall()
      case 'recover':
        return await upstream.recover()
      case 'restore':
        for (const varve of this.#varves) varve.dropOldest()
        return await upstream.restore(this.chain.eras[upstream.state.era] ?? this.chain.current)
    }
  }

  /** Moves the upstreams to another chain, one after another. */
  async #reset (wanted: number): Promise<void> {
    this.#tally.note('fault: reset')
    // A short chain gets a longer one: genesis alone proves no chain.
    const more = this.chain.current.archive.height + wanted < leastHeight ? -wanted : wanted
    this.#wasTroubled = true
    if (more > 0) {
      await this.#recoverAll()
      await until(() => performance.now() > this.#provenAt, 'the chain is proven')
    }
    const era = this.chain.startEra(more)
    for (const upstream of this.upstreams) await upstream.restore(era)
  }

  async #failRedis (how: 'flush' | 'cut' | 'restart'): Promise<void> {
    if (this.#shared === undefined) return
    this.#tally.note(`fault: redis ${how}`)
    await this.#shared.fail(how)
    await this.#join()
  }

  /** Begins a longer chain once varves can prove ours; ends when they may use again what they share. */
  async #lengthen (step: WorldChange): Promise<void> {
    await this.#join()
    await this.#shared?.untilProvable()
    await this.#change(step)
    await this.#join()
  }

  /** Ends all trouble where varves share a Redis, as they use it only once upstreams have proven their chain. */
  async #join (): Promise<void> {
    if (this.#shared === undefined) return
    await this.#recoverAll()
    await this.#settle()
    await this.#shared.untilJoined(this.#varves.length)
    // Processes that could prove nothing before may have begun a space each; now all use the newest.
    if (this.#wasTroubled) { for (const varve of this.#varves) varve.dropCached() }
  }

  async #recoverAll (): Promise<void> {
    for (const upstream of this.upstreams) {
      if (!upstream.isTroubled) continue
      await upstream.recover()
      this.#provenAt = performance.now() + provenMs
    }
  }

  async #killWorker (): Promise<void> {
    if (this.#setting.workers === 1) return
    this.#tally.note('fault: killed worker')
    this.#wasTroubled = true
    // A worker that starts while all upstreams lag serves a lower head than the others.
    await this.#recoverAll()
    await this.#varveAt(0).killWorker()
    await this.#settle()
  }

  /** Ends when each varve knows the release, also of the other's upstreams; then all may have to be rendered again. */
  async #settleRelease (): Promise<void> {
    if (this.#shared !== undefined) {
      await until(() => performance.now() > this.#forgottenAt, 'a stopped varve is forgotten')
    }
    await this.#join()
    await this.#settle()
    await this.#shared?.untilSynced()
    for (const varve of this.#varves) varve.dropCached()
  }

  async #settle (): Promise<void> {
    for (const varve of this.#varves) await varve.untilSettled(this.chain)
  }

  async #sendAll (
    varve: VarveUnderTest,
    { requests, meanwhile }: Omit<Requests, 'to'>
  ): Promise<readonly RawResponse[]> {
    const { observations: { floor }, knownAt } = varve
    const era = this.chain.current.index
    const oldestBefore = varve.oldestFloor(floor.era)
    const cachedBefore = requests.map(sent => varve.isCached(sent, era))
    const before = this.#reads()
    const sentAt = performance.now()
    const responses = requests.map(async sent => {
      const response = await varve.wire.send(sent)
      return { response, arrivedAt: performance.now() }
    })
    if (meanwhile !== undefined) {
      await new Promise(resolve => {
        setImmediate(resolve)
      })
      await this.#change(meanwhile)
    }
    const gots = await Promise.all(responses)
    const oldestFloor = Math.min(oldestBefore, varve.oldestFloor(floor.era))
    for (const [at, request] of requests.entries()) {
      const got = gots[at]
      if (got === undefined) continue
      const { response, arrivedAt } = got
      const wasCached = cachedBefore[at] === true && era === this.chain.current.index
      const { failure, served } = await this.#isHttp(request, response)
        ? this.#judge.judge({ request, response, sentAt, arrivedAt, knownAt, floor, oldestFloor, wasCached })
        : { failure: undefined }
      if (failure !== undefined) throw new Error(`${failure}: ${JSON.stringify(request)}`)
      this.#count(request, response)
      varve.observe(request, response, served)
    }
    this.#judgeUpstreamRequests(requests.length, this.#reads() - before)
    if (varve.loggedError !== undefined) throw new Error(varve.loggedError)
    return gots.map(({ response }) => response)
  }

  /** False for bytes that no node takes for a request: varve rejects them or closes the connection. */
  async #isHttp (request: ModelRequest, response: RawResponse): Promise<boolean> {
    if (response.status !== 0 && (response.status < 400 || response.status >= 500)) return true
    const { status, headers } = await this.#wire.send(unpinRequest(request).request)
    return status < 400 || headers['content-type'] !== undefined
  }

  /** Number of reads of state and events that all upstreams have had; varve itself makes none of them. */
  #reads (): number {
    return this.upstreams.reduce(
      (sum, { requests }) =>
        sum + (['table_item', 'account_modules', 'account_events', 'view'] as const).reduce(
          (count, endpoint) => count + requests.countFor(endpoint),
          0
        ),
      0
    )
  }

  /** Checks law 10 (nothing grows without bound); an audit reads once more. */
  #judgeUpstreamRequests (requests: number, reads: number): void {
    const most = requests * mostPerRequest + (this.#setting.auditShare > 0 ? requests * mostRequestsAtOnce : 0)
    if (reads > most) throw new Error(`${reads} upstream requests for ${requests} requests`)
  }

  #count (sent: ModelRequest, { status, headers }: RawResponse): void {
    const cacheStatus = headers['cache-status']
    const outcome = outcomeOf(cacheStatus) ?? 'hung up'
    const endpoint = parsedReadOf(sent)?.endpoint.name
    this.#tally.count(outcome)
    this.#tally.note(`status ${status}`)
    const isHit = outcome === 'hit' || outcome === 'pruned hit'
    if (isHit) this.#tally.note(`hit of ${endpoint}`)
    if (isHit && this.upstreams.every(({ state: { condition } }) => condition === 'down')) {
      this.#tally.note('a hit with every upstream down')
    }
    if (cacheStatus === redisHit) {
      for (const what of ['redis hit', `redis hit of ${endpoint}`]) {
        this.#tally.note(what)
      }
    }
    if (cacheStatus === diskHit) this.#tally.note('disk hit')
    if (cacheStatus === followedHit) this.#tally.note('a followed hit')
    if (unpinRequest(sent).pinned !== undefined && status === 200) {
      this.#tally.note(isHit ? 'a pinned page from the cache' : 'a pinned page')
    }
  }

  /** Purges, and reads again what was cached: no varve may still have it. */
  async #purge (varve: VarveUnderTest, what: PurgedRead): Promise<void> {
    this.#tally.note('a purge')
    // Takes a single read: the second of two may be in a block that the first has fetched again.
    const known = [varve, ...this.#varves].flatMap(({ lastCached }) => lastCached ?? []).slice(0, 1)
    await this.#join()
    let status = 202
    await until(async () => (status = await varve.purge(what)) !== 202, 'the purge has reached all')
    // A varve that started while every upstream was down knows no chain to purge.
    if (status === 503 && this.upstreams.every(({ isTroubled }) => isTroubled)) return
    if (status !== 200 && status !== 400) throw new Error(`the purge returned ${status}`)
    await this.#shared?.untilSynced()
    for (const each of this.#varves) each.dropCached()
    if (status !== 200) return
    for (const sent of what === 'all' ? known : [sentOf(what)]) await this.#judgePurged(sent)
  }

  async #judgePurged (sent: ModelRequest): Promise<void> {
    const read = parsedReadOf(sent)
    const isHistory = (read?.requestedVersion ?? read?.page) !== undefined
    for (const varve of this.#varves) {
      const [got] = await this.#sendAll(varve, { requests: [sent] })
      const status = got?.headers['cache-status']
      // Allows a hit in Redis: the other varve may have what the first one fetched after the purge.
      if (isHistory && outcomeOf(status)?.endsWith('hit') === true && status !== redisHit) {
        throw new Error(`${status} of what was purged: ${JSON.stringify(sent)}`)
      }
    }
  }
}

const mostRequestsAtOnce = 6

function releaseAfter (release: string): string {
  const all: string[] = Object.values(releases)
  return all[all.indexOf(release) + 1] ?? release
}

const sentOf = ({ method, url, body }: Exclude<PurgedRead, 'all'>): ModelRequest => ({
  method,
  target: url,
  headers: body === undefined ? [] : [['content-type', 'application/json']],
  ...(body !== undefined && { body })
})
