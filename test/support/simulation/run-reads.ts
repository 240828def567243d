import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { withTimeout } from '../../../src/with-timeout.js'
import { type TestResponse, sendRequest } from '../client.js'
import { cacheNamesOf } from '../model/cache-names.js'
import { drawRead } from '../model/draw-read.js'
import { type Judgement } from '../model/judge.js'
import { neighbouringRead } from '../model/neighbouring-read.js'
import { expectedResponse } from '../model/oracle.js'
import { splitPinnedCursor } from '../model/pinned-cursors.js'
import { isLatestState, type ReadSpec } from '../model/read-spec.js'
import { drawStyle, plainRequest, renderRequest } from '../model/render-request.js'
import { type ModelRequest, testRequestOf } from '../model/request.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type Tally } from '../model/tally.js'
import { type PoolRead, type PoolWorld } from './pool-world.js'

/** A verdict that may tolerate what a busy machine or busy upstreams explain. */
export interface ReadVerdict extends Judgement {
  readonly tolerated?: string | undefined
}

/** Reads of a run, and how they are judged. */
export interface ReadRun {
  readonly url: string
  readonly world: PoolWorld
  readonly tally: Tally
  /** True for bursts, least versions and small caches, where stalls of the machine are allowed for. */
  readonly isLoaded: boolean
  /** Reads in progress at once, if a busy machine could serve no more of them in time. */
  readonly mostUnderWay?: number
  readonly judgeRead: (given: PoolRead, least: bigint | undefined) => ReadVerdict
}

const everyMs = 4
const usuallyUnderWay = 96
// Twice the upstream timeout, and more than any promise allows; longer under load.
const responseMs = 8000
const loadedResponseMs = 20_000
const neverMs = 60_000
// Share of reads that repeat an earlier one, mostly soon, as another request variant.
const repeatedShare = 0.6
const soonShare = 0.7
const nearbyShare = 0.2
const soon = 60
const remembered = 6000
// Interval of bursts: many clients at once, each with its own read.
const burstEveryMs = 3000
const burstReads = 120
const leastShare = 0.1
const followedShare = 0.5
// Largest stored response by default.
const largestEntry = 8 * 1024 * 1024
// Time after which varve knows that a killed upstream is down.
const troubledMs = 2000

/** Runs reads of every kind, in every request variant, whatever their results, and judges each. */
export async function runReads (run: ReadRun, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  const { world, isLoaded, mostUnderWay = usuallyUnderWay } = run
  const agent = new Agent({ keepAlive: true, maxSockets: mostUnderWay + (isLoaded ? burstReads : 0) })
  const reads: ReadSpec[] = []
  const inFlight = new Set<Promise<void>>()
  let burstAt = performance.now() + burstEveryMs
  const begin = (spec: ReadSpec): void => {
    const read = readModelled(run, spec, chance, agent).finally(() => {
      inFlight.delete(read)
    })
    inFlight.add(read)
  }
  while (!signal.aborted) {
    const old = chance.happens(repeatedShare)
      ? reads[chance.integerBelow(chance.happens(soonShare) ? Math.min(soon, reads.length) : reads.length)]
      : undefined
    const spec = old === undefined
      ? drawRead(chance, world.source)
      : chance.happens(nearbyShare)
      ? neighbouringRead(old, chance, world.source)
      : old
    if (spec !== old) reads.unshift(spec)
    if (reads.length > remembered) reads.pop()
    begin(spec)
    if (isLoaded && performance.now() > burstAt) {
      burstAt = performance.now() + burstEveryMs
      for (let nth = 0; nth < Math.min(burstReads, mostUnderWay); nth++) begin(drawRead(chance, world.source))
    }
    await pause(chance.integerBelow(2 * everyMs))
    while (inFlight.size >= mostUnderWay) await Promise.race(inFlight)
  }
  await Promise.all(inFlight)
  agent.destroy()
}

/** Runs one read, and sometimes the page after it. */
export async function readModelled (
  run: ReadRun,
  spec: ReadSpec,
  chance: SeededRandom,
  agent: Agent,
  isFollowed = chance.happens(followedShare)
): Promise<void> {
  const request = renderRequest(spec, drawStyle(chance))
  const servedVersion = run.world.observations.floor.versions.at(-1)
  const least = run.isLoaded && isLatestState(spec) && servedVersion !== undefined && chance.happens(leastShare)
    ? servedVersion + BigInt(chance.integerBetween(-5, 15))
    : undefined
  const got = await readOnce(run, { spec, request }, request.target, least, agent)
  const cursor = String(got?.headers['x-node-cursor'] ?? '')
  const pinned = splitPinnedCursor(cursor)
  if (got?.status !== 200 || pinned === undefined || spec.kind !== 'modules' || !isFollowed) return
  const next: ReadSpec = { ...spec, version: pinned.version, cursor: pinned.own }
  const { target } = plainRequest({ ...spec, version: undefined, cursor })
  await readOnce(run, { spec: next, request: plainRequest(next), isPinned: true }, target, undefined, agent)
}

async function readOnce (
  run: ReadRun,
  read: Pick<PoolRead, 'spec' | 'request' | 'isPinned'>,
  target: string,
  least: bigint | undefined,
  agent: Agent
): Promise<TestResponse | undefined> {
  const { url, world, tally, isLoaded } = run
  const { pool, chain, observations } = world
  const { spec, request } = read
  const { method = 'GET', headers, body } = testRequestOf(request)
  const servedFloor = observations.floor
  const cachedBefore = isLoaded
    ? new Set<number>()
    : new Set(
      chain.eras.filter(era => cacheNamesOf(era, spec, request).some(name => observations.isCached(name)))
        .map(({ index }) => index)
    )
  const from = performance.now()
  const response = await withTimeout(
    neverMs,
    sendRequest(url, target, {
      method,
      headers: { ...headers, ...(least !== undefined && { 'x-varve-min-ledger-version': String(least) }) },
      agent,
      ...(body !== undefined && { body })
    }).catch((error: unknown) => String(error))
  )
  const span = { from, to: performance.now() }
  const isStalled = isLoaded && pool.wasStalled(span)
  if (response === undefined || typeof response === 'string') {
    const isClosed = /hang up|ECONNRESET/.test(response ?? '')
    // Tolerates a reset during a stall: one side closed an idle connection while the other reused it.
    if (isStalled && isClosed) tally.note('tolerated: standstill')
    else if (isClosed && observations.wasPausedSince(from)) tally.note('left: closed at a reload')
    else if (!/aborted/.test(response ?? '') || !isTooLarge(spec, request, world) || !wasTroubled(world, span.from)) {
      tally.fail(response ?? `no response within ${neverMs} ms`, `${method} ${target}`)
    }
    return undefined
  }
  if (span.to - span.from > (isLoaded ? loadedResponseMs : responseMs) && !isStalled) {
    tally.fail(
      `a response came after ${Math.round(span.to - span.from)} ms`,
      `${method} ${target} ${response.status} ${response.body.slice(0, 200)}`
    )
  }
  const given: PoolRead = { ...read, span, servedFloor, wasCached: ({ index }) => cachedBefore.has(index), response }
  const { failure, tolerated, served } = run.judgeRead(given, least)
  tallyRead(given, world, tally)
  if (tolerated !== undefined) tally.note(`tolerated: ${tolerated}`)
  if (failure !== undefined) {
    tally.fail(
      failure,
      `${target}${least === undefined ? '' : ` at least ${least}`}\n    ${describePoolRead(given, world)}`
    )
    return response
  }
  if (served === undefined) return response
  const { era: { index }, version } = served
  // Counts the reads of one coalesced fetch once.
  if (!isLoaded && version < (servedFloor.versions[index] ?? -1n)) {
    tally.noteOnce('latest responses behind the served head', `${JSON.stringify(plainRequest(spec))} ${version}`)
  }
  observations.observe(served)
  if (!isLoaded) remember(given, world, version, index)
  return response
}

function tallyRead ({ spec, response, span }: PoolRead, { pool, chain }: PoolWorld, tally: Tally): void {
  const isHit = tally.countResponse(spec.kind, response).endsWith('hit')
  if (isHit) tally.note('hits')
  if (isHit && !pool.wasAnyUpstream(span, ({ condition }) => condition === 'up')) {
    tally.note('hits without a responding upstream')
  }
  if (pool.hadCapableUpstream(chain.current, span)) tally.note('reads while an upstream could respond')
}

/** True if a response is streamed, so that it breaks off with its upstream, and the connection too. */
function isTooLarge (spec: ReadSpec, request: ModelRequest, { chain }: PoolWorld): boolean {
  return spec.kind === 'block' &&
    chain.eras.some(era => expectedResponse(era, request, { height: era.archive.height }).body.length > largestEntry)
}

function wasTroubled ({ pool }: PoolWorld, from: number): boolean {
  return pool.wasAnyUpstream({ from: from - troubledMs, to: performance.now() }, ({ condition }) => condition !== 'up')
}

/** Records reads that are known to be cached from now on. */
function remember (
  { spec, request, response }: PoolRead,
  { chain, observations }: PoolWorld,
  version: bigint,
  index: number
): void {
  const era = chain.eras[index] ?? chain.current
  const [byValue, byText] = cacheNamesOf(era, spec, request)
  const name = response.status === 200 ? byValue : byText
  if (name !== undefined && /hit|; stored/.test(String(response.headers['cache-status']))) observations.noteCached(name)
  // Records a latest read under its stamped version as well, which varve stores.
  if (isLatestState(spec) && response.status === 200) {
    const [pinned] = cacheNamesOf(era, { ...spec, version }, request)
    if (pinned !== undefined) observations.noteCached(pinned)
  }
}

/** Returns everything needed to investigate a response. */
export function describePoolRead (
  { spec, request, span, servedFloor, response }: PoolRead,
  { pool }: PoolWorld
): string {
  const lines = Object.entries(response.headers).filter(([name]) =>
    name.startsWith('x-node-') || name === 'cache-status' || name === 'retry-after'
  )
  const how = pool.upstreams.map(({ name, history }) =>
    `${name}: ${
      history.between(span.from - 3000, span.to).slice(-12).map(({ at, condition, era, release, oldest, head }) =>
        `${Math.round(at - span.from)} ${condition} era ${era} ${release.slice(0, 4)} [${oldest}, ${head}]`
      ).join('; ')
    }`
  )
  return [
    `${request.method} ${request.target} ${request.body ?? ''} (${spec.kind}, ${spec.form}) took ${
      Math.round(span.to - span.from)
    } ms; shown before: era ${servedFloor.era} at ${String(servedFloor.versions.at(-1))}`,
    `${response.status} ${JSON.stringify(response.bytes.toString('utf8', 0, 160))} ${
      lines.map(([name, value]) => `${name.replace('x-node-', '')}=${String(value)}`).join(' ')
    }`,
    ...how
  ].join('\n    ')
}
