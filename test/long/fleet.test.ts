import { once } from 'node:events'
import t, { type Test } from 'tap'
import { Chain } from '../support/fleet/chain.js'
import { Chance } from '../support/fleet/chance.js'
import { blockMs, Fleet } from '../support/fleet/fleet.js'
import { type World } from '../support/fleet/judge.js'
import { readOn } from '../support/fleet/reader.js'
import { type Plan, resets, trouble } from '../support/fleet/schedule.js'
import { Memories } from '../support/fleet/shown.js'
import { Tally } from '../support/fleet/tally.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const usualNodes = 3

// Another seed each time, since the machine's own pace is another too: SEED=n takes one again, RUNS_FACTOR=n goes on
// for longer.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const seconds = 60 * Number(process.env['RUNS_FACTOR'] ?? 1)
const count = Number(process.env['FLEET_NODES'] ?? usualNodes)
const blocksAtStart = 1000

t.test(
  `whatever happens to ${count} node${
    count === 1 ? '' : 's'
  } for ${seconds} s, each answer is what the chain says, the position never goes back, and no client sees an error while an able node lives (seed ${seed})`,
  { timeout: (seconds + 60) * 1000 },
  async t => {
    const chance = new Chance(seed)
    const chain = new Chain(seed % 100_000 * 100, blocksAtStart)
    const fleet = await Fleet.start(t, chain, count)
    const world: World = { fleet, chain, memories: new Memories() }
    const tally = new Tally()
    const varve = await varveAt(t, '', {
      head: { pollMs: 1000 },
      upstreams: fleet.nodes.map(({ name, url }) => ({
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
    const plan: Plan = {
      fleet,
      chain,
      signal,
      tell: name => {
        tally.fault(name)
      }
    }
    await Promise.all([
      grows(fleet, signal),
      resets(chance.fork(), plan),
      ...fleet.nodes.map(async node => {
        await trouble(node, chance.fork(), plan)
      }),
      readOn(varve.url, chance.fork(), world, tally, signal)
    ])

    for (
      const line of [
        `seed ${seed}`,
        `the machine stood still for ${fleet.standstillMs} ms`,
        ...tally.lines,
        ...await countersOf(varve)
      ]
    ) t.comment(line)
    // What varve has said of its nodes, for who looks into a fault.
    if (tally.told.length > 0) {
      for (const { time, msg, node, reason } of varve.log) {
        t.comment(
          `${Math.round(Number(time) - performance.timeOrigin - started)} ms: ${String(msg)} ${String(node ?? '')} ${
            String(reason ?? '')
          }`
        )
      }
    }
    t.same(tally.told, [], `every answer is right; SEED=${seed} takes this run again`)
    t.ok(
      tally.stale.size <= (await varve.metric('varve_stale_latest_total') ?? 0),
      'each latest answer that is behind what was shown is counted'
    )
    t.equal(
      await varve.metric('varve_cache_evictions_total{tier="memory"}'),
      0,
      'nothing was put out of memory, so that what was kept must be served'
    )
    exercises(t, tally)
  }
)

/** The chain grows at the pace of real ones. */
async function grows (fleet: Fleet, signal: AbortSignal): Promise<void> {
  const growth = setInterval(() => {
    fleet.grow()
  }, blockMs)
  await once(signal, 'abort')
  clearInterval(growth)
}

/** A run in which hardly anything happened proves nothing. */
function exercises (t: Test, tally: Tally): void {
  t.ok(tally.total > 30 * seconds, `${tally.total} reads`)
  t.ok(tally.hits > tally.total / 8, `${tally.hits} hits`)
  t.ok(tally.hits < tally.total * 0.9, `${tally.total - tally.hits} reads that were no hits`)
  t.ok(tally.able > tally.total / 5, `${tally.able} reads while a node owed an answer`)
  t.ok(tally.faults >= seconds / 6, `${tally.faults} faults`)
  // Several nodes are hardly ever gone all at once.
  if (count === 1) t.ok(tally.hitsAlone > seconds / 4, `${tally.hitsAlone} hits with no node that answered`)
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
