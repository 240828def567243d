import { Agent } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { within } from '../../../src/within.js'
import { ask, type Got } from '../client.js'
import { type Chance } from './chance.js'
import { type Era } from './chain.js'
import { judge, type Case, type World } from './judge.js'
import { nameOf } from './names.js'
import { answerOf } from './oracle.js'
import { spell, type Spelt } from './spell.js'
import { type Tally } from './tally.js'
import { drawWish, neighbourOf, type Wish } from './wish.js'

const everyMs = 4
const mostUnderWay = 96
// Twice the time that a node has for an answer, and more than any promise allows.
const answerMs = 8000
// What was asked for is asked for again, mostly soon, in another spelling.
const repeatedShare = 0.6
const soonShare = 0.7
const nearbyShare = 0.2
const soon = 60
const remembered = 6000
// What varve is told to keep at most, by default.
const largestKept = 8 * 1024 * 1024
// A node that was killed is known for it by then.
const troubledMs = 2000

/** A stream of reads that goes on whatever becomes of each, and has each judged. */
export async function readOn (
  url: string,
  chance: Chance,
  world: World,
  tally: Tally,
  signal: AbortSignal
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: mostUnderWay })
  const wishes: Wish[] = []
  const underWay = new Set<Promise<void>>()
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
    const read = readOnce(url, wish, chance, world, tally, agent).finally(() => {
      underWay.delete(read)
    })
    underWay.add(read)
    await pause(chance.below(2 * everyMs))
    while (underWay.size >= mostUnderWay) await Promise.race(underWay)
  }
  await Promise.all(underWay)
  agent.destroy()
}

async function readOnce (
  url: string,
  wish: Wish,
  chance: Chance,
  world: World,
  tally: Tally,
  agent: Agent
): Promise<void> {
  const spelt = spell(wish, chance)
  const { memories } = world
  const floor = memories.floor
  const names = new Map(world.chain.eras.map(era => [era.index, nameOf(era, wish, spelt)]))
  const kept = new Set(
    [...names].filter(([, each]) => each.some(name => memories.isKept(name))).map(([index]) => index)
  )
  const from = performance.now()
  const got = await within(
    answerMs,
    ask(url, spelt.target, {
      method: spelt.method,
      headers: spelt.headers,
      agent,
      ...(spelt.body !== undefined && { body: spelt.body })
    }).catch((error: unknown) => String(error))
  )
  const span = { from, to: performance.now() }
  if (
    typeof got === 'string' && /aborted/.test(got) && isTooLarge(wish, spelt, world) &&
    world.fleet.wasAny({ from: from - troubledMs, to: span.to }, ({ condition }) => condition !== 'up')
  ) return
  if (got === undefined || typeof got === 'string') {
    return tally.fail(got ?? `no answer within ${answerMs} ms`, `${spelt.method} ${spelt.target}`)
  }
  const given: Case = { wish, spelt, span, floor, wasKept: ({ index }) => kept.has(index), got }
  const { wrong, shown, isStale = false } = judge(given, world)
  tally.read(given, {
    wasAlone: !world.fleet.wasAny(span, ({ condition }) => condition === 'up'),
    wasAble: world.fleet.isAble(world.chain.present, span)
  })
  if (wrong !== undefined) return tally.fail(wrong, describe(given, world))
  // Those who share one fetch are counted once.
  if (isStale) tally.stale.add(`${JSON.stringify(spell(wish))} ${String(shown?.version)}`)
  if (shown === undefined) return
  memories.show(shown)
  remember(given, shown.era, shown.version, world)
}

/** Whether an answer goes through as it comes, so that it breaks off with its node, and its connection with it. */
function isTooLarge (wish: Wish, spelt: Spelt, { chain }: World): boolean {
  return wish.kind === 'block' &&
    chain.eras.some(era => answerOf(era, spelt, era.archive.height).body.length > largestKept)
}

/** What is known to be kept from now on. */
function remember ({ wish, spelt, got }: Case, era: Era, version: bigint, { memories }: World): void {
  const said = String(got.headers['cache-status'])
  if (wish.kind === 'gas' || wish.kind === 'info') return
  const [byValue, byText] = nameOf(era, wish, spelt)
  const name = got.status === 200 ? byValue : byText
  if (name !== undefined && /hit|; stored/.test(said)) memories.keep(name)
  // The state at the head is that of the version it was read at, and is kept for it.
  if ((wish.kind === 'table' || wish.kind === 'modules') && wish.version === undefined && got.status === 200) {
    const [pinned] = nameOf(era, { ...wish, version }, spelt)
    if (pinned !== undefined) memories.keep(pinned)
  }
}

/** All that is needed to look into an answer. */
export function describe ({ wish, spelt, span, floor, got }: Case, { fleet }: World): string {
  const lines = Object.entries(got.headers).filter(([name]) =>
    name.startsWith('x-node-') || name === 'cache-status' || name === 'retry-after'
  )
  const how = fleet.nodes.map(({ name, moments }) =>
    `${name}: ${
      moments.between(span.from - 3000, span.to).slice(-12).map(({ at, condition, era, release, oldest, head }) =>
        `${Math.round(at - span.from)} ${condition} era ${era} ${release.slice(0, 4)} [${oldest}, ${head}]`
      ).join('; ')
    }`
  )
  return [
    `${spelt.method} ${spelt.target} ${spelt.body ?? ''} (${wish.kind}, ${wish.form}) took ${
      Math.round(span.to - span.from)
    } ms; shown before: era ${floor.era} at ${String(floor.versions.at(-1))}`,
    `${got.status} ${summaryOf(got)} ${
      lines.map(([name, value]) => `${name.replace('x-node-', '')}=${String(value)}`).join(' ')
    }`,
    ...how
  ].join('\n    ')
}

function summaryOf ({ body }: Got): string {
  return JSON.stringify(body.slice(0, 160))
}
