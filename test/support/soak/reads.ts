import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { readPinned } from '../../../src/api/pinned-cursor.js'
import { within } from '../../../src/within.js'
import { ask, type Got } from '../client.js'
import { type Chance } from '../fleet/chance.js'
import { describe } from '../fleet/reader.js'
import { spell, type Spelt } from '../fleet/spell.js'
import { drawWish, neighbourOf, type Wish } from '../fleet/wish.js'
import { type Soak } from './soak.js'
import { judgeStrained, type Strained } from './verdict.js'

const everyMs = 4
const mostUnderWay = 96
// More than any promise allows; who waits longer still wants to know whether it was an answer that came late or none at
// all.
const answerMs = 20_000
const neverMs = 60_000
const repeatedShare = 0.6
const soonShare = 0.7
const nearbyShare = 0.2
const soon = 60
const remembered = 6000
// Every so often many clients come at once, each with a wish of its own.
const burstEveryMs = 3000
const burstReads = 120
const leastShare = 0.1
const followedShare = 0.5

/** A stream of reads of every kind, in every spelling, each judged by the model. */
export async function readOn (soak: Soak, chance: Chance, signal: AbortSignal): Promise<void> {
  const { world } = soak
  const agent = new Agent({ keepAlive: true, maxSockets: mostUnderWay + burstReads })
  const wishes: Wish[] = []
  const underWay = new Set<Promise<void>>()
  let burstAt = performance.now() + burstEveryMs
  const begin = (wish: Wish): void => {
    const read = readOnce(soak, wish, chance, agent).finally(() => {
      underWay.delete(read)
    })
    underWay.add(read)
  }
  while (!signal.aborted) {
    const old = chance.is(repeatedShare)
      ? wishes[chance.below(chance.is(soonShare) ? Math.min(soon, wishes.length) : wishes.length)]
      : undefined
    const wish = old === undefined
      ? drawWish(chance, world.fleet, world.chain.present)
      : chance.is(nearbyShare)
      ? neighbourOf(old, chance)
      : old
    if (wish !== old) wishes.unshift(wish)
    if (wishes.length > remembered) wishes.pop()
    begin(wish)
    if (performance.now() > burstAt) {
      burstAt = performance.now() + burstEveryMs
      for (let nth = 0; nth < burstReads; nth++) begin(drawWish(chance, world.fleet, world.chain.present))
    }
    await pause(chance.below(2 * everyMs))
    while (underWay.size >= mostUnderWay) await Promise.race(underWay)
  }
  await Promise.all(underWay)
  agent.destroy()
}

/** One read, and sometimes the page after it. */
export async function readOnce (
  soak: Soak,
  wish: Wish,
  chance: Chance,
  agent: Agent,
  isFollowed = chance.is(followedShare)
): Promise<void> {
  const spelt = spell(wish, chance)
  const isLatest = (wish.kind === 'table' || wish.kind === 'modules') && wish.version === undefined
  const shown = soak.floors.floor.versions.at(-1)
  const least = isLatest && shown !== undefined && chance.is(leastShare)
    ? shown + BigInt(chance.between(-5, 15))
    : undefined
  const got = await put(soak, { wish, spelt, target: spelt.target, least, isPinned: false }, agent)
  const pinned = readPinned(String(got?.headers['x-node-cursor'] ?? ''))
  if (got?.status !== 200 || pinned === undefined || wish.kind !== 'modules' || !isFollowed) return
  const next: Wish = { ...wish, version: pinned.version, cursor: pinned.own }
  const { target } = spell({ ...wish, version: undefined, cursor: String(got.headers['x-node-cursor']) })
  await put(soak, { wish: next, spelt: spell(next), target, least: undefined, isPinned: true }, agent)
}

interface Put extends Pick<Strained, 'wish' | 'spelt' | 'least' | 'isPinned'> {
  readonly target: string
  readonly spelt: Spelt
}

async function put (
  { program, world, floors, tally }: Soak,
  { target, ...asked }: Put,
  agent: Agent
): Promise<Got | undefined> {
  const { wish, spelt: { method, headers, body }, least } = asked
  const { floor } = floors
  const from = performance.now()
  const sent = { ...headers, ...(least !== undefined && { 'x-varve-min-ledger-version': String(least) }) }
  const got = await within(
    neverMs,
    ask(program.url, target, { method, headers: sent, agent, ...(body !== undefined && { body }) }).catch((
      error: unknown
    ) => String(error))
  )
  const span = { from, to: performance.now() }
  if (got === undefined || typeof got === 'string') {
    // An idle connection was closed by the one side while the other, late, took it for open.
    if (got !== undefined && /hang up|ECONNRESET/.test(got) && world.fleet.stoodStill(span)) {
      tally.grant('standstill')
      return undefined
    }
    tally.fail(got ?? `no answer within ${neverMs} ms`, `${method} ${target}`)
    return undefined
  }
  if (span.to - span.from > answerMs && !world.fleet.stoodStill(span)) {
    tally.fail(
      `an answer came after ${Math.round(span.to - span.from)} ms`,
      `${method} ${target} ${got.status} ${got.body.slice(0, 200)}`
    )
  }
  const given: Strained = { ...asked, span, floor, wasKept: () => false, got }
  const { wrong, granted, shown } = judgeStrained(given, world, floors)
  tally.answer(wish.kind, got, span.to - span.from)
  if (granted !== undefined) tally.grant(granted)
  if (wrong !== undefined) {
    tally.fail(wrong, `${target}${least === undefined ? '' : ` at least ${least}`}\n    ${describe(given, world)}`)
  } else if (shown !== undefined) floors.show(shown)
  return got
}
