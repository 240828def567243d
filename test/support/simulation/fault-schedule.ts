import { setTimeout as pause } from 'node:timers/promises'
import { type Fault, type PrunedEventsMode } from '#sandbox'
import { type SeededRandom } from './seeded-random.js'
import { type Chain } from './chain.js'
import { type SimulatedPool } from './simulated-pool.js'
import { type SimulatedUpstream } from './simulated-upstream.js'

/** Faults of one upstream, and of all. */
export const faultNames = ['kill', 'freeze', 'lag', 'stall', 'prune', 'upgrade', 'restore', 'sick', 'reset'] as const

/** Name of a fault. */
export type FaultName = typeof faultNames[number]

/** Parameters of the schedule. */
export interface FaultPlan {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly signal: AbortSignal
  readonly onFault: (fault: FaultName) => void
}

// Delay before a longer chain: varve reads anchors two seconds after a start or reset, and without them cannot tell
// such a chain.
const anchoredMs = 6000
const loudMs = 14_000
// Smallest windows: they must include the newest anchor, which is up to ten seconds old, or older after an outage.
const leastKept = [80, 140] as const
// Quiet time, long enough to learn a release (law 8: at least every 15 s) and to read after that.
const softMs = 24_000
// Starts with the faults that a short run must include.
const loudFirst: readonly FaultName[] = ['kill', 'freeze', 'prune', 'upgrade', 'sick']
const loudThen: readonly FaultName[] = ['kill', 'lag', 'stall', 'restore', 'sick']
// Faults during which an upstream still responds.
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
// Responses of status 200 that cannot be true.
const lies: readonly Fault[] = [{ kind: 'html' }, { kind: 'panic200' }, {
  kind: 'headers',
  remove: ['x-aptos-ledger-version']
}]

/** Injects faults into an upstream, by the seed, until the end: a whole deck, then again in another order. */
export async function injectFaults (node: SimulatedUpstream, chance: SeededRandom, plan: FaultPlan): Promise<void> {
  const started = performance.now()
  let deck: FaultName[] = []
  let isLoud = true
  while (!plan.signal.aborted) {
    // Mixes short pauses, so that faults overlap, and long ones, so that all recovers.
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

/** Moves all upstreams to another chain of the same name, one after another. */
export async function injectResets (chance: SeededRandom, plan: FaultPlan): Promise<void> {
  const { pool, chain, signal, onFault } = plan
  let sinceMs = chance.integerBetween(8000, 12_000)
  while (!signal.aborted) {
    if (!await waited(sinceMs, plan)) return
    // Allows a longer chain only after anchors exist: a shorter one shows by its position, a longer one by blocks in
    // its window.
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
      // Restarts the upstream on it, or swaps it behind the same address.
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
      // Fails all reads, or only one kind while the upstream is healthy otherwise.
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

/** Waits; resolves with false if the run ends before. */
async function waited (ms: number, { signal }: FaultPlan): Promise<boolean> {
  return await pause(ms, true, { signal }).catch(() => false)
}
