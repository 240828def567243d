import { setTimeout as pause } from 'node:timers/promises'
import { type Fault, type PrunedEventsMode } from '#sandbox'
import { type SeededRandom } from '../model/seeded-random.js'
import { type Chain } from '../model/chain.js'
import { type SimulatedPool } from './simulated-pool.js'
import { type SimulatedUpstream } from './simulated-upstream.js'

/** Faults of one upstream, and of all. */
export const faultNames = [
  'kill',
  'freeze',
  'lag',
  'stall',
  'prune',
  'upgrade',
  'restore',
  'unhealthy',
  'reset'
] as const

/** Name of a fault. */
export type FaultName = typeof faultNames[number]

/** Parameters of the schedule. */
export interface FaultPlan {
  readonly pool: SimulatedPool
  readonly chain: Chain
  readonly signal: AbortSignal
  readonly onFault: (fault: FaultName) => void
  /** True if processes of varve start during the run, which have no anchors and cannot know a longer chain. */
  readonly startsProcesses?: boolean
}

// Delay before a longer chain: varve reads anchors two seconds after a start or reset, and without them cannot know
// such a chain.
const anchoredMs = 6000
const loudMs = 14_000
// Smallest windows: they must include the newest anchor, which is up to ten seconds old, or older after an outage.
const leastBlocks = [80, 140] as const
// Quiet time, long enough to learn a release (law 8, rendering can change: at most 15 s) and to read after that.
const softMs = 24_000
// Starts with the faults that a short run must include.
const loudFirst: readonly FaultName[] = ['kill', 'freeze', 'prune', 'upgrade', 'unhealthy']
const loudThen: readonly FaultName[] = ['kill', 'lag', 'stall', 'restore', 'unhealthy']
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
export async function injectFaults (upstream: SimulatedUpstream, chance: SeededRandom, plan: FaultPlan): Promise<void> {
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
    await upstream.runExclusively(async () => {
      await suffer(upstream, fault, chance, plan, isLoud)
    })
  }
}

/** Moves all upstreams to another chain of the same name, one after another. */
export async function injectResets (chance: SeededRandom, plan: FaultPlan): Promise<void> {
  const { pool, chain, signal, onFault, startsProcesses = false } = plan
  let sinceMs = chance.integerBetween(8000, 12_000)
  while (!signal.aborted) {
    if (!await waited(sinceMs, plan)) return
    // Allows a longer chain only after anchors exist: a shorter one shows by its position, a longer one by blocks in
    // its window.
    const isLonger = !startsProcesses && sinceMs > anchoredMs && chance.happens(0.7)
    const era = chain.startEra(isLonger ? chance.integerBetween(5, 40) : -chance.integerBetween(40, 300))
    sinceMs = chance.integerBetween(8000, 16_000)
    onFault('reset')
    for (const upstream of chance.shuffled(pool.upstreams)) {
      await upstream.runExclusively(async () => {
        await upstream.kill()
        await upstream.restore(era)
        await waited(chance.integerBetween(50, 600), plan)
        await upstream.restart()
      })
    }
    pool.noteResetDone()
  }
}

async function suffer (
  upstream: SimulatedUpstream,
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
      await upstream.kill()
      await forAWhile()
      return await upstream.restart()
    case 'freeze':
      upstream.freeze()
      await forAWhile()
      return upstream.thaw(chance.happens(0.5))
    case 'lag':
    case 'stall':
      if (fault === 'lag') upstream.lag(chance.integerBetween(1, 40))
      else upstream.stall()
      await forAWhile()
      return upstream.catchUp()
    case 'prune':
      return upstream.prune(
        chance.integerBetween(...leastBlocks),
        chance.pick<PrunedEventsMode>(['error500', 'gone410', 'empty', 'gaps', 'served'])
      )
    case 'upgrade':
      // Restarts the upstream on it, or swaps it behind the same address.
      if (isLoud) await upstream.kill()
      upstream.upgrade(
        chance.happens(0.5) || pool.upstreams.length === 1
          ? pool.newRelease()
          : pool.releases.at(-1) ?? upstream.release
      )
      return isLoud ? await upstream.restart() : undefined
    case 'restore':
      await upstream.kill()
      await upstream.restore(chain.eras[upstream.era] ?? chain.current)
      return await upstream.restart()
    case 'unhealthy':
      // Fails all reads, or only one kind while the upstream is healthy otherwise.
      for (const sickness of [...chance.shuffled(failures).slice(0, 2), ...lies]) {
        upstream.injectFault({
          ...sickness,
          share: chance.pick([0.2, 0.5]),
          ...chance.pick([{}, {}, { match: 'account_modules' }, { match: 'block_by_height' }])
        })
      }
      await forAWhile()
      return upstream.recover()
    case 'reset':
  }
}

/** Waits; resolves with false if the run ends before. */
async function waited (ms: number, { signal }: FaultPlan): Promise<boolean> {
  return await pause(ms, true, { signal }).catch(() => false)
}
