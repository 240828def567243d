import { once } from 'node:events'
import t, { type Test } from 'tap'
import { Chain } from '../support/simulation/chain.js'
import { SeededRandom } from '../support/simulation/seeded-random.js'
import { blockMs, SimulatedPool } from '../support/simulation/simulated-pool.js'
import { type Simulation } from '../support/simulation/judge.js'
import { runReads } from '../support/simulation/run-reads.js'
import { type FaultPlan, injectResets, injectFaults } from '../support/simulation/fault-schedule.js'
import { Observations } from '../support/simulation/served-position.js'
import { SimulationTally } from '../support/simulation/tally.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const usualNodes = 3

// Draws another seed each run, because timing differs anyway: SEED=n repeats one, RUNS_FACTOR=n runs longer.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const seconds = 60 * Number(process.env['RUNS_FACTOR'] ?? 1)
const count = Number(process.env['FLEET_NODES'] ?? usualNodes)
const blocksAtStart = 1000

t.test(
  `with ${count} faulty upstream${
    count === 1 ? '' : 's'
  } for ${seconds} s reads are true, in order and free of errors (seed ${seed})`,
  { timeout: (seconds + 60) * 1000 },
  async t => {
    const chance = new SeededRandom(seed)
    const chain = new Chain(seed % 100_000 * 100, blocksAtStart)
    const pool = await SimulatedPool.start(t, chain, count)
    const world: Simulation = { pool, chain, observations: new Observations() }
    const tally = new SimulationTally()
    const varve = await varveAt(t, '', {
      head: { pollMs: 1000 },
      upstreams: pool.upstreams.map(({ name, url }) => ({
        name,
        url,
        headers: {},
        timeoutMs: 1000,
        maxConcurrent: 256,
        requestsPerSecond: null,
        caFile: null,
        ignoreCacheControl: false
      }))
    })

    const started = performance.now()
    const signal = AbortSignal.timeout(seconds * 1000)
    const plan: FaultPlan = {
      pool,
      chain,
      signal,
      onFault: name => {
        tally.fault(name)
      }
    }
    await Promise.all([
      grows(pool, signal),
      injectResets(chance.fork(), plan),
      ...pool.upstreams.map(async node => {
        await injectFaults(node, chance.fork(), plan)
      }),
      runReads(varve.url, chance.fork(), world, tally, signal)
    ])

    for (
      const line of [
        `seed ${seed}`,
        `the machine stood still for ${pool.stalledMs} ms`,
        ...tally.lines,
        ...await countersOf(varve)
      ]
    ) t.comment(line)
    // Prints varve's reports about its upstreams, to investigate a fault.
    if (tally.reports.length > 0) {
      for (const { time, msg, node, reason } of varve.log) {
        t.comment(
          `${Math.round(Number(time) - performance.timeOrigin - started)} ms: ${String(msg)} ${String(node ?? '')} ${
            String(reason ?? '')
          }`
        )
      }
    }
    t.same(tally.reports, [], `every response is right; SEED=${seed} repeats this run`)
    t.ok(
      tally.stale.size <= (await varve.metric('varve_stale_latest_total') ?? 0),
      'each latest response behind the served head is counted'
    )
    t.equal(
      await varve.metric('varve_cache_evictions_total{tier="memory"}'),
      0,
      'nothing was evicted, so cached reads must be hits'
    )
    exercises(t, tally)
  }
)

/** Grows the chain at the pace of real ones. */
async function grows (fleet: SimulatedPool, signal: AbortSignal): Promise<void> {
  const growth = setInterval(() => {
    fleet.grow()
  }, blockMs)
  await once(signal, 'abort')
  clearInterval(growth)
}

/** Expects every outcome: a run in which hardly anything happened proves nothing. */
function exercises (t: Test, tally: SimulationTally): void {
  t.ok(tally.total > 30 * seconds, `${tally.total} reads`)
  t.ok(tally.hits > tally.total / 8, `${tally.hits} hits`)
  t.ok(tally.hits < tally.total * 0.9, `${tally.total - tally.hits} reads without a hit`)
  t.ok(tally.withUpstream > tally.total / 5, `${tally.withUpstream} reads while an upstream could respond`)
  t.ok(tally.faults >= seconds / 6, `${tally.faults} faults`)
  // Checks this for one upstream only: several hardly ever fail all at once.
  if (count === 1) {
    t.ok(tally.hitsWithoutUpstream > seconds / 4, `${tally.hitsWithoutUpstream} hits without a responding upstream`)
  }
  if (seconds >= 40) {
    for (const name of ['kill', 'freeze', 'lag', 'stall', 'prune', 'upgrade', 'sick', 'reset'] as const) {
      t.ok(tally.faultsOf(name) > 0, name)
    }
  }
}

async function countersOf (varve: TestVarve): Promise<string[]> {
  const names = [
    'varve_stale_latest_total',
    'varve_chain_resets_total',
    'varve_cache_entries{tier="memory"}',
    'varve_cache_bytes{tier="memory"}',
    'varve_cache_evictions_total{tier="memory"}'
  ]
  return await Promise.all(names.map(async name => `${name} ${await varve.metric(name)}`))
}
