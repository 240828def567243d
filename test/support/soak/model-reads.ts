import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { readPinnedCursor } from '../../../src/api/pinned-cursor.js'
import { withTimeout } from '../../../src/with-timeout.js'
import { sendRequest, type TestResponse } from '../client.js'
import { type SeededRandom } from '../simulation/seeded-random.js'
import { describeJudgedRead } from '../simulation/run-reads.js'
import { renderRequest } from '../simulation/render-request.js'
import { drawRead, neighbouringRead, type ReadSpec } from '../simulation/read-spec.js'
import { type SoakRun } from './soak-run.js'
import { judgeUnderLoad, type ReadUnderLoad } from './judge-under-load.js'

const everyMs = 4
const mostUnderWay = 96
// More than any promise allows; longer, to tell a late response from none.
const answerMs = 20_000
const neverMs = 60_000
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

/** Runs reads of every kind, in every request variant, each judged by the model. */
export async function runModelReads (soak: SoakRun, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  const { world } = soak
  const agent = new Agent({ keepAlive: true, maxSockets: mostUnderWay + burstReads })
  const wishes: ReadSpec[] = []
  const inFlight = new Set<Promise<void>>()
  let burstAt = performance.now() + burstEveryMs
  const begin = (wish: ReadSpec): void => {
    const read = readModelled(soak, wish, chance, agent).finally(() => {
      inFlight.delete(read)
    })
    inFlight.add(read)
  }
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
    begin(wish)
    if (performance.now() > burstAt) {
      burstAt = performance.now() + burstEveryMs
      for (let nth = 0; nth < burstReads; nth++) begin(drawRead(chance, world.pool, world.chain.current))
    }
    await pause(chance.integerBelow(2 * everyMs))
    while (inFlight.size >= mostUnderWay) await Promise.race(inFlight)
  }
  await Promise.all(inFlight)
  agent.destroy()
}

/** Runs one read, and sometimes the page after it. */
export async function readModelled (
  soak: SoakRun,
  spec: ReadSpec,
  chance: SeededRandom,
  agent: Agent,
  isFollowed = chance.happens(followedShare)
): Promise<void> {
  const request = renderRequest(spec, chance)
  const isLatest = (spec.kind === 'table' || spec.kind === 'modules') && spec.version === undefined
  const shown = soak.floors.floor.versions.at(-1)
  const least = isLatest && shown !== undefined && chance.happens(leastShare)
    ? shown + BigInt(chance.integerBetween(-5, 15))
    : undefined
  const got = await put(soak, { spec, request, target: request.target, least, isPinned: false }, agent)
  const pinned = readPinnedCursor(String(got?.headers['x-node-cursor'] ?? ''))
  if (got?.status !== 200 || pinned === undefined || spec.kind !== 'modules' || !isFollowed) return
  const next: ReadSpec = { ...spec, version: pinned.version, cursor: pinned.upstreamCursor }
  const { target } = renderRequest({ ...spec, version: undefined, cursor: String(got.headers['x-node-cursor']) })
  await put(soak, { spec: next, request: renderRequest(next), target, least: undefined, isPinned: true }, agent)
}

interface Put extends Pick<ReadUnderLoad, 'spec' | 'request' | 'least' | 'isPinned'> {
  readonly target: string
}

async function put (
  { program, world, floors, tally }: SoakRun,
  { target, ...asked }: Put,
  agent: Agent
): Promise<TestResponse | undefined> {
  const { spec, request: { method, headers, body }, least } = asked
  const { floor: servedFloor } = floors
  const from = performance.now()
  const sent = { ...headers, ...(least !== undefined && { 'x-varve-min-ledger-version': String(least) }) }
  const response = await withTimeout(
    neverMs,
    sendRequest(program.url, target, { method, headers: sent, agent, ...(body !== undefined && { body }) }).catch((
      error: unknown
    ) => String(error))
  )
  const span = { from, to: performance.now() }
  if (response === undefined || typeof response === 'string') {
    // Tolerates a reset during a stall: one side closed an idle connection while the other reused it.
    if (response !== undefined && /hang up|ECONNRESET/.test(response) && world.pool.wasStalled(span)) {
      tally.tolerate('standstill')
      return undefined
    }
    tally.fail(response ?? `no answer within ${neverMs} ms`, `${method} ${target}`)
    return undefined
  }
  if (span.to - span.from > answerMs && !world.pool.wasStalled(span)) {
    tally.fail(
      `an answer came after ${Math.round(span.to - span.from)} ms`,
      `${method} ${target} ${response.status} ${response.body.slice(0, 200)}`
    )
  }
  const given: ReadUnderLoad = { ...asked, span, servedFloor, wasCached: () => false, response }
  const { failure, tolerated, served } = judgeUnderLoad(given, world, floors)
  tally.answer(spec.kind, response, span.to - span.from)
  if (tolerated !== undefined) tally.tolerate(tolerated)
  if (failure !== undefined) {
    tally.fail(
      failure,
      `${target}${least === undefined ? '' : ` at least ${least}`}\n    ${describeJudgedRead(given, world)}`
    )
  } else if (served !== undefined) floors.observe(served)
  return response
}
