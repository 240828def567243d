import { setTimeout as pause } from 'node:timers/promises'
import { type Fault, type PrunedEventsMode } from '#sandbox'
import { type SeededRandom } from './seeded-random.js'
import { type Chain } from './chain.js'
import { type SimulatedPool } from './simulated-pool.js'
import { type SimulatedUpstream } from './simulated-upstream.js'

/** What can happen to a node, and to all of them. */
export const faultNames = ['kill', 'freeze', 'lag', 'stall', 'prune', 'upgrade', 'restore', 'sick', 'reset'] as const

/** One of them. */
export type FaultName = typeof faultNames[number]

/** What the schedule goes by. */
export interface FaultPlan {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly signal: AbortSignal
  readonly onFault: (fault: FaultName) => void
}

// The blocks by which it knows its chain varve reads two seconds after its start or a reset, if the node answers then.
// A longer chain that comes before that is mixed with the old one.
const anchoredMs = 6000
const loudMs = 14_000
// A window must hold a block that the chain is known by, and the newest of those is up to ten seconds old, and older
// where nobody answered.
const leastKept = [80, 140] as const
// Long enough for a release to be learned with nothing else going on (law 8: each 15 s at least), and for reads after
// that.
const softMs = 24_000
// What a short run must not miss comes first.
const loudFirst: readonly FaultName[] = ['kill', 'freeze', 'prune', 'upgrade', 'sick']
const loudThen: readonly FaultName[] = ['kill', 'lag', 'stall', 'restore', 'sick']
// None of these keeps a node from answering.
const soft: readonly FaultName[] = ['lag', 'stall', 'lag', 'stall', 'lag', 'stall', 'lag', 'stall']
const failures: readonly Fault[] = [
  { kind: 'reset' },
  { kind: 'cutShort' },
  { kind: 'cutShort', chunked: true },
  { kind: 'garbage' },
  { kind: 'error', code: 'internal_error' },
  { kind: 'error', code: 'internal_error', status: 503 },
  { kind: 'rateLimited', retryAfter: '1' }
]
// A 200 that cannot be true.
const lies: readonly Fault[] = [{ kind: 'html' }, { kind: 'panic200' }, {
  kind: 'headers',
  remove: ['x-aptos-ledger-version']
}]

/**
 * Has one thing after another happen to a node, by the seed, until the run is over: all of a deck, then again in
 * another order.
 */
export async function injectFaults (node: SimulatedUpstream, chance: SeededRandom, plan: FaultPlan): Promise<void> {
  const started = performance.now()
  let deck: FaultName[] = []
  let isLoud = true
  while (!plan.signal.aborted) {
    // Now one thing upon another, now long enough for all to be as it was.
    if (
      !await waited(chance.happens(0.7) ? chance.integerBetween(200, 900) : chance.integerBetween(2500, 4000), plan)
    ) return
    const shouldBeLoud = (performance.now() - started) % (loudMs + softMs) < loudMs
    if (deck.length === 0 || shouldBeLoud !== isLoud) {
      deck = shouldBeLoud
        ? [...chance.shuffled(loudFirst), ...chance.shuffled(loudThen)]
        : ['upgrade', ...chance.shuffled(soft)]
    }
    isLoud = shouldBeLoud
    const fault = deck.shift() ?? 'lag'
    await node.runExclusively(async () => {
      await suffer(node, fault, chance, plan, isLoud)
    })
  }
}

/** The whole fleet walks to another chain of the same name, one node after another. */
export async function injectResets (chance: SeededRandom, plan: FaultPlan): Promise<void> {
  const { pool, chain, signal, onFault } = plan
  let sinceMs = chance.integerBetween(8000, 12_000)
  while (!signal.aborted) {
    if (!await waited(sinceMs, plan)) return
    // A shorter chain shows by its position, a longer one by its blocks alone; those that are compared must lie in its
    // window.
    const isLonger = sinceMs > anchoredMs && chance.happens(0.7)
    const era = chain.startEra(isLonger ? chance.integerBetween(5, 40) : -chance.integerBetween(40, 300))
    sinceMs = chance.integerBetween(8000, 16_000)
    onFault('reset')
    for (const node of chance.shuffled(pool.upstreams)) {
      await node.runExclusively(async () => {
        await node.kill()
        await node.restore(era)
        await waited(chance.integerBetween(50, 600), plan)
        await node.restart()
      })
    }
    pool.noteResetDone()
  }
}

async function suffer (
  node: SimulatedUpstream,
  fault: FaultName,
  chance: SeededRandom,
  plan: FaultPlan,
  isLoud: boolean
): Promise<void> {
  const { pool, chain, onFault } = plan
  const forAWhile = async (): Promise<void> => {
    await waited(chance.integerBetween(200, 1800), plan)
  }
  onFault(fault)
  switch (fault) {
    case 'kill':
      await node.kill()
      await forAWhile()
      return await node.restart()
    case 'freeze':
      node.freeze()
      await forAWhile()
      return node.thaw(chance.happens(0.5))
    case 'lag':
    case 'stall':
      if (fault === 'lag') node.lag(chance.integerBetween(1, 40))
      else node.stall()
      await forAWhile()
      return node.catchUp()
    case 'prune':
      return node.prune(
        chance.integerBetween(...leastKept),
        chance.pick<PrunedEventsMode>(['error500', 'gone410', 'empty', 'gaps', 'kept'])
      )
    case 'upgrade':
      // Started anew with it, or exchanged behind its address.
      if (isLoud) await node.kill()
      node.upgrade(
        chance.happens(0.5) || pool.upstreams.length === 1 ? pool.newRelease() : pool.releases.at(-1) ?? node.release
      )
      return isLoud ? await node.restart() : undefined
    case 'restore':
      await node.kill()
      await node.restore(chain.eras[node.era] ?? chain.current)
      return await node.restart()
    case 'sick':
      // All that it is asked, or one kind of it alone while it is well otherwise.
      for (const sickness of [...chance.shuffled(failures).slice(0, 2), ...lies]) {
        node.injectFault({
          ...sickness,
          share: chance.pick([0.2, 0.5]),
          ...chance.pick([{}, {}, { match: 'account_modules' }, { match: 'block_by_height' }])
        })
      }
      await forAWhile()
      return node.recover()
    case 'reset':
  }
}

/** Waits, unless the run is over before. */
async function waited (ms: number, { signal }: FaultPlan): Promise<boolean> {
  return await pause(ms, true, { signal }).catch(() => false)
}
