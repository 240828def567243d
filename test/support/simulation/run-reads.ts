import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { withTimeout } from '../../../src/with-timeout.js'
import { sendRequest, type TestResponse } from '../client.js'
import { type SeededRandom } from './seeded-random.js'
import { type Era } from './chain.js'
import { judge, type JudgedRead, type Simulation } from './judge.js'
import { cacheNamesOf } from './cache-names.js'
import { expectedResponse } from './oracle.js'
import { renderRequest, type ModelRequest } from './render-request.js'
import { type SimulationTally } from './tally.js'
import { drawRead, neighbouringRead, type ReadSpec } from './read-spec.js'

const everyMs = 4
const mostUnderWay = 96
// Twice the upstream timeout, and more than any promise allows.
const answerMs = 8000
// Share of reads that repeat an earlier one, mostly soon, as another request variant.
const repeatedShare = 0.6
const soonShare = 0.7
const nearbyShare = 0.2
const soon = 60
const remembered = 6000
// Largest stored response by default.
const largestKept = 8 * 1024 * 1024
// Time after which varve knows that a killed upstream is down.
const troubledMs = 2000

/** Runs a stream of reads, whatever their results, and judges each. */
export async function runReads (
  url: string,
  chance: SeededRandom,
  world: Simulation,
  tally: SimulationTally,
  signal: AbortSignal
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: mostUnderWay })
  const wishes: ReadSpec[] = []
  const inFlight = new Set<Promise<void>>()
  while (!signal.aborted) {
    const old = chance.happens(repeatedShare)
      ? wishes[chance.integerBelow(chance.happens(soonShare) ? Math.min(soon, wishes.length) : wishes.length)]
      : undefined
    const wish = old === undefined
      ? drawRead(chance, world.pool, world.chain.current)
      : chance.happens(nearbyShare)
      ? neighbouringRead(old, chance)
      : old
    if (wish !== old) wishes.unshift(wish)
    if (wishes.length > remembered) wishes.pop()
    const read = readOnce(url, wish, chance, world, tally, agent).finally(() => {
      inFlight.delete(read)
    })
    inFlight.add(read)
    await pause(chance.integerBelow(2 * everyMs))
    while (inFlight.size >= mostUnderWay) await Promise.race(inFlight)
  }
  await Promise.all(inFlight)
  agent.destroy()
}

async function readOnce (
  url: string,
  spec: ReadSpec,
  chance: SeededRandom,
  world: Simulation,
  tally: SimulationTally,
  agent: Agent
): Promise<void> {
  const request = renderRequest(spec, chance)
  const { observations } = world
  const servedFloor = observations.floor
  const names = new Map(world.chain.eras.map(era => [era.index, cacheNamesOf(era, spec, request)]))
  const kept = new Set(
    [...names].filter(([, each]) => each.some(name => observations.isCached(name))).map(([index]) => index)
  )
  const from = performance.now()
  const response = await withTimeout(
    answerMs,
    sendRequest(url, request.target, {
      method: request.method,
      headers: request.headers,
      agent,
      ...(request.body !== undefined && { body: request.body })
    }).catch((error: unknown) => String(error))
  )
  const span = { from, to: performance.now() }
  if (
    typeof response === 'string' && /aborted/.test(response) && isTooLarge(spec, request, world) &&
    world.pool.wasAnyUpstream({ from: from - troubledMs, to: span.to }, ({ condition }) => condition !== 'up')
  ) return
  if (response === undefined || typeof response === 'string') {
    return tally.fail(response ?? `no answer within ${answerMs} ms`, `${request.method} ${request.target}`)
  }
  const given: JudgedRead = { spec, request, span, servedFloor, wasCached: ({ index }) => kept.has(index), response }
  const { failure, served, isStale = false } = judge(given, world)
  tally.read(given, {
    wasAlone: !world.pool.wasAnyUpstream(span, ({ condition }) => condition === 'up'),
    wasAble: world.pool.hadCapableUpstream(world.chain.current, span)
  })
  if (failure !== undefined) return tally.fail(failure, describeJudgedRead(given, world))
  // Counts the reads of one coalesced fetch once.
  if (isStale) tally.stale.add(`${JSON.stringify(renderRequest(spec))} ${String(served?.version)}`)
  if (served === undefined) return
  observations.observe(served)
  remember(given, served.era, served.version, world)
}

/** True if a response is streamed, so that it breaks off with its upstream, and the connection too. */
function isTooLarge (wish: ReadSpec, spelt: ModelRequest, { chain }: Simulation): boolean {
  return wish.kind === 'block' &&
    chain.eras.some(era => expectedResponse(era, spelt, era.archive.height).body.length > largestKept)
}

/** Records reads that are known to be cached from now on. */
function remember (
  { spec, request, response }: JudgedRead,
  era: Era,
  version: bigint,
  { observations }: Simulation
): void {
  const said = String(response.headers['cache-status'])
  if (spec.kind === 'gas' || spec.kind === 'info') return
  const [byValue, byText] = cacheNamesOf(era, spec, request)
  const name = response.status === 200 ? byValue : byText
  if (name !== undefined && /hit|; stored/.test(said)) observations.noteCached(name)
  // Records a latest read under its stamped version as well, which varve stores.
  if ((spec.kind === 'table' || spec.kind === 'modules') && spec.version === undefined && response.status === 200) {
    const [pinned] = cacheNamesOf(era, { ...spec, version }, request)
    if (pinned !== undefined) observations.noteCached(pinned)
  }
}

/** Returns everything needed to investigate a response. */
export function describeJudgedRead (
  { spec, request, span, servedFloor, response }: JudgedRead,
  { pool }: Simulation
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
    `${response.status} ${summaryOf(response)} ${
      lines.map(([name, value]) => `${name.replace('x-node-', '')}=${String(value)}`).join(' ')
    }`,
    ...how
  ].join('\n    ')
}

function summaryOf ({ body }: TestResponse): string {
  return JSON.stringify(body.slice(0, 160))
}
