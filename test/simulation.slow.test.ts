import { once } from 'node:events'
import t, { type Test } from 'tap'
import { Chain } from './support/model/chain.js'
import { judge } from './support/model/judge.js'
import { SeededRandom } from './support/model/seeded-random.js'
import { Tally } from './support/model/tally.js'
import { PoolWorld } from './support/simulation/pool-world.js'
import { blockMs, SimulatedPool } from './support/simulation/simulated-pool.js'
import { runReads } from './support/simulation/run-reads.js'
import { type FaultPlan, injectResets, injectFaults } from './support/simulation/fault-schedule.js'
import { followModeOf, followSeriesOf } from './support/tail.js'
import { startRedis } from './support/redis-server.js'
import { runLeavingClients } from './support/soak/abrupt-clients.js'
import { configurationOf, stateMs } from './support/soak/configuration.js'
import { injectRedisFaults, slowUpstreams } from './support/soak/fault-injection.js'
import { judgeUnderLoad } from './support/soak/judge-under-load.js'
import { runPurges, runReloads } from './support/soak/operator.js'
import { seriesOf, sumOfSeries } from './support/soak/process-snapshot.js'
import { type SoakRun } from './support/soak/soak-run.js'
import { startVarveProcess } from './support/soak/varve-process.js'
import { type TestVarve, varveAt } from './support/varve.js'

const defaultCount = 3

// Draws another seed each run, because timing differs anyway: SEED=n repeats one, RUNS_FACTOR=n runs longer.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const seconds = 60 * Number(process.env['RUNS_FACTOR'] ?? 1)
const count = Number(process.env['FLEET_NODES'] ?? defaultCount)
const blocksAtStart = 1000
// Nodes index their history at the first read, which stops this process.
const fewBlocks = 300
const maxAgeMs = 250
// Allows for messages between workers through the primary process, on a busy machine.
const sharingMs = 1000
// Share of the run for which the machine may stand still.
const mostStalled = 0.1
// Seeds take turns: FOLLOW=on chooses.
const followMode = followModeOf(seed)

t.test(
  `${seconds} s, ${count} faulty upstreams, follow ${followMode}: true reads in order (seed ${seed})`,
  { timeout: (seconds + 60) * 1000 },
  async t => {
    const chance = new SeededRandom(seed)
    const chain = new Chain({ seed: seed % 100_000 * 100, blocks: blocksAtStart })
    const pool = await SimulatedPool.start(t, chain, count)
    const world = new PoolWorld(pool, chain, { latestMs: followMode === 'on' ? maxAgeMs : 0 })
    const tally = new Tally()
    const varve = await varveAt(t, '', {
      head: { pollMs: 1000 },
      follow: { mode: followMode, maxAgeMs, verify: 0.2 },
      audit: { share: 0.01, followedShare: 0.1 },
      upstreams: pool.upstreams.map(({ name, url }) => ({
        name,
        url,
        headers: {},
        resolve: 'any',
        proxy: null,
        timeoutMs: 1000,
        maxConcurrent: 256,
        requestsPerSecond: null,
        caFile: null,
        certFile: null,
        keyFile: null,
        ignoreCacheControl: false,
        maxLagSeconds: 60,
        priority: 0,
        weight: 1
      }))
    })

    const started = performance.now()
    const signal = AbortSignal.timeout(seconds * 1000)
    const plan = planOf(pool, chain, signal, tally)
    await Promise.all([
      grows(pool, signal),
      injectResets(chance.fork(), plan),
      ...pool.upstreams.map(async upstream => {
        await injectFaults(upstream, chance.fork(), plan)
      }),
      runReads(
        { url: varve.url, world, tally, isLoaded: false, judgeRead: given => judge(given, world) },
        chance.fork(),
        signal
      )
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
      tally.countOf('latest responses behind the served head') <= (await varve.metric('varve_stale_latest_total') ?? 0),
      'each latest response behind the served head is counted'
    )
    t.equal(
      await varve.metric('varve_cache_evictions_total{tier="memory"}'),
      0,
      'nothing was evicted, so cached reads must be hits'
    )
    exercises(t, tally)
    await exercisesFollowing(t, varve)
  }
)

t.test(
  `${seconds} s, 2 workers, Redis, purges, reloads, faults and resets: true latest reads in time (seed ${seed})`,
  { timeout: (seconds + 60) * 1000 },
  async t => {
    const chance = new SeededRandom(seed)
    const chain = new Chain({ seed: seed % 100_000 * 100, blocks: fewBlocks })
    const pool = await SimulatedPool.start(t, chain, count)
    const redis = await startRedis(t)
    const configOf = (round: number): object => ({
      ...configurationOf(pool.upstreams, { redisUrl: redis.url, diskPath: null }, round, 'on'),
      workers: 2
    })
    const program = await startVarveProcess(t, configOf(0), { isInspected: false })
    const world = new PoolWorld(pool, chain, { pinsPages: true, latestMs: stateMs, latestShare: 0.4, sharingMs })
    const tally = new Tally()
    const run: SoakRun = {
      program,
      url: program.url,
      world,
      tally,
      isLoaded: true,
      mostUnderWay: 24,
      judgeRead: (given, least) => judgeUnderLoad(given, world, least)
    }
    const signal = AbortSignal.timeout(seconds * 1000)
    const plan = planOf(pool, chain, signal, tally)
    await Promise.all([
      grows(pool, signal),
      runReads(run, chance.fork(), signal),
      runLeavingClients(run, chance.fork(), signal),
      runPurges(run, chance.fork(), signal),
      runReloads(run, configOf, signal),
      injectRedisFaults(redis, chance.fork(), tally, signal),
      slowUpstreams(pool.upstreams, chance.fork(), tally, signal),
      injectResets(chance.fork(), { ...plan, startsProcesses: true }),
      ...pool.upstreams.map(async upstream => {
        await injectFaults(upstream, chance.fork(), plan)
      })
    ])

    const series = await seriesOf(program)
    const sum = (name: string, ...labels: string[]): number => sumOfSeries(series, name, ...labels)
    for (const line of [`seed ${seed}`, `the machine stood still for ${pool.stalledMs} ms`, ...tally.lines]) {
      t.comment(line)
    }
    t.same(tally.reports, [], `every response is right; SEED=${seed} repeats this run`)
    t.equal(sum('varve_follow_verified_total', 'result="different"'), 0, 'following is never wrong')
    t.equal(sum('varve_audit_total', 'result="different"'), 0, 'no audit found a wrong entry')
    const [followed, fromRedis] = ['hit_followed', 'hit_redis'].map(outcome =>
      sum('varve_requests_total', `outcome="${outcome}"`)
    )
    // A short run draws not every fault.
    for (const fault of ['reload', 'purge', 'reset', ...(seconds >= 40 ? ['lag'] : [])]) {
      t.ok(tally.countOf(`fault: ${fault}`) > 0, fault)
    }
    t.ok(sum('varve_chain_resets_total') > 0, `${sum('varve_chain_resets_total')} resets`)
    // Reads of a machine that stands still end by timeouts: they must be right, but prove little more.
    if (pool.stalledMs < seconds * mostStalled * 1000) {
      t.ok(followed, `${followed} latest reads needed no fetch`)
      t.ok(fromRedis, `${fromRedis} hits from Redis`)
      t.ok(tally.total > 30 * seconds, `${tally.total} reads`)
      t.ok(tally.sumOf('tolerated') < tally.total / 10, `${tally.sumOf('tolerated')} worse responses than necessary`)
    }
    program.terminate()
    t.equal(await program.ended, 0, 'it stops')
    t.same(program.stderrLines, [], 'varve wrote nothing to standard error')
    // While upstreams are reset one by one, two chains are in use, and a worker still on the old one reports the new.
    const isOfReset = /quarantined|unless the chain is being reset/
    t.same(program.errors.filter(({ msg }) => !isOfReset.test(String(msg))), [], 'varve logged no other error')
  }
)

function planOf (pool: SimulatedPool, chain: Chain, signal: AbortSignal, tally: Tally): FaultPlan {
  return {
    pool,
    chain,
    signal,
    onFault: name => {
      tally.note(`fault: ${name}`)
    }
  }
}

/** Grows the chain at the pace of real ones. */
async function grows (pool: SimulatedPool, signal: AbortSignal): Promise<void> {
  const growth = setInterval(() => {
    pool.grow()
  }, blockMs)
  await once(signal, 'abort')
  clearInterval(growth)
}

/** Expects every outcome: a run in which hardly anything happened proves nothing. */
function exercises (t: Test, tally: Tally): void {
  t.ok(tally.total > 30 * seconds, `${tally.total} reads`)
  const hits = tally.countOf('hits')
  t.ok(hits > tally.total / 8, `${hits} hits`)
  t.ok(hits < tally.total * 0.9, `${tally.total - hits} reads without a hit`)
  const able = tally.countOf('reads while an upstream could respond')
  t.ok(able > tally.total / 5, `${able} reads while an upstream could respond`)
  t.ok(tally.sumOf('fault') >= seconds / 6, `${tally.sumOf('fault')} faults`)
  // Checks this for one upstream only: several hardly ever fail all at once.
  if (count === 1) {
    const alone = tally.countOf('hits without a responding upstream')
    t.ok(alone > seconds / 4, `${alone} hits without a responding upstream`)
  }
  if (seconds >= 40) {
    for (const name of ['kill', 'freeze', 'lag', 'stall', 'prune', 'upgrade', 'unhealthy', 'reset'] as const) {
      t.ok(tally.countOf(`fault: ${name}`) > 0, name)
    }
  }
}

/** Expects following to have served or compared latest reads, and never wrongly. */
async function exercisesFollowing (t: Test, varve: TestVarve): Promise<void> {
  if (followMode === 'off') return
  const series = await followSeriesOf(varve)
  for (const [name, value] of series) t.comment(`${name} ${value}`)
  const sum = (of: RegExp): number => series.reduce((total, [name, value]) => total + (of.test(name) ? value : 0), 0)
  t.equal(sum(/observed_total.*different|verified_total.*different/), 0, 'following is never wrong')
  t.equal(await varve.metric('varve_audit_total{result="different"}'), 0, 'no audit found a wrong entry')
  const used = followMode === 'on' ? sum(/requests_total.*hit_followed/) : sum(/observed_total.*equal/)
  t.ok(used > 0, `${used} latest reads needed no fetch`)
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
