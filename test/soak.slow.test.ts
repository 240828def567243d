import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { auditResults } from '../src/proxy/audit-sampler.js'
import { outcomeNames } from '../src/proxy/outcomes.js'
import { followModeOf } from './support/tail.js'
import { Chain } from './support/model/chain.js'
import { expectedResponse } from './support/model/oracle.js'
import { SeededRandom } from './support/model/seeded-random.js'
import { Tally } from './support/model/tally.js'
import { PoolWorld } from './support/simulation/pool-world.js'
import { runReads } from './support/simulation/run-reads.js'
import { blockMs, SimulatedPool } from './support/simulation/simulated-pool.js'
import { injectFaults } from './support/simulation/fault-schedule.js'
import { type RedisProcess, startRedis } from './support/redis-server.js'
import { configurationOf, type LowerTiers, stateMs } from './support/soak/configuration.js'
import { runHotReads } from './support/soak/hot-reads.js'
import { takeQuickSnapshot, sumOfSeries } from './support/soak/process-snapshot.js'
import { runPurges, runReloads, runScrapes } from './support/soak/operator.js'
import { runForwardedReads } from './support/soak/forwarded-reads.js'
import { startVarveProcess } from './support/soak/varve-process.js'
import { compareSnapshots, idleSnapshot, describeSnapshot } from './support/soak/idle-comparison.js'
import { judgeUnderLoad } from './support/soak/judge-under-load.js'
import { type LargeRead, runLeavingClients, runLargeReads } from './support/soak/abrupt-clients.js'
import { type SoakRun } from './support/soak/soak-run.js'
import { stopUnderLoad } from './support/soak/stop-under-load.js'
import { slowUpstreams, injectRedisFaults } from './support/soak/fault-injection.js'
import { until } from './support/until.js'

// SEED=n repeats a seed, SOAK_SECONDS=n runs longer.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const seconds = Number(process.env['SOAK_SECONDS'] ?? 60)
const followMode = followModeOf(seed)
// DISK=on and DISK=off choose; else every other seed has the disk tier in front of Redis.
const hasDisk = (process.env['DISK'] ?? (seed % 2 === 0 ? 'on' : 'off')) === 'on'
const upstreamCount = 3
const blocksAtStart = 1000
// Gives the last upstream the whole history, so that blocks too large for the cache are always available.
const windowsOfBlocks = [400, 800, 1_000_000]
const largeHeight = 900n
const longSeconds = 120
const isShort = seconds < 60
const firstTroubleMs = 45_000
// Lets small leaks show in a long run.
const floodResponses = isShort ? 4000 : 15_000
const warmResponses = 6000
const [warmMs, calmMs] = isShort ? [4000, 2000] : [8000, 5000]
// Requires enough responses for small leaks to show; a busy machine takes longer for them.
const leastResponses = isShort ? 4000 : 10_000
// Time before and after the faults, together.
const aroundMs = 28_000
const troubledMs = Math.max(10_000, seconds * 1000 - aroundMs)

t.test(
  `${seconds} s of faults, follow ${followMode}, ${
    hasDisk ? 'with' : 'no'
  } disk: no leak, no wrong response (seed ${seed})`,
  { timeout: (3 * seconds + 120) * 1000 },
  async t => {
    const chance = new SeededRandom(seed)
    const chain = new Chain({ seed: seed % 100_000 * 100, blocks: blocksAtStart })
    const pool = await SimulatedPool.start(t, chain, upstreamCount, at => windowsOfBlocks[at] ?? blocksAtStart)
    const redis = await startRedis(t)
    const tiers = { redisUrl: redis.url, diskPath: hasDisk ? temporaryFolder(t) : null }
    const configOf = (round: number): object => configurationOf(pool.upstreams, tiers, round, followMode)
    const program = await startVarveProcess(t, configOf(0))
    const world = new PoolWorld(pool, chain, { pinsPages: true, latestMs: stateMs })
    const tally = new Tally()
    const soak: SoakRun = {
      program,
      url: program.url,
      world,
      tally,
      isLoaded: true,
      judgeRead: (given, least) => judgeUnderLoad(given, world, least)
    }
    const large = largeOf(chain)
    const { openFiles } = await takeQuickSnapshot(program)
    const growth = setInterval(() => {
      pool.grow()
    }, blockMs)
    t.teardown(() => {
      clearInterval(growth)
    })

    // Fills every bounded structure, such as the parsed-request cache, before the first measurement.
    await runHotReads(soak, chance.fork(), untilResponses(tally, warmResponses), 'flooding')
    await clients(soak, large, chance, AbortSignal.timeout(warmMs))
    // Runs faults once before the first measurement of a long run, so that one-time work is done.
    if (seconds > longSeconds) await live(soak, large, redis, tiers, chance, AbortSignal.timeout(firstTroubleMs))
    const before = await idleSnapshot(program, configOf, openFiles)
    const requestsBefore = tally.total
    t.ok(sumOfSeries(before.series, 'varve_cache_evictions_total') > 0, 'memory was full')
    await live(
      soak,
      large,
      redis,
      tiers,
      chance,
      AbortSignal.any([
        AbortSignal.timeout(3 * troubledMs),
        both(AbortSignal.timeout(troubledMs), untilResponses(tally, tally.total + leastResponses))
      ])
    )
    const grantedUnderTrouble = tally.sumOf('tolerated')
    await clients(soak, large, chance, AbortSignal.timeout(calmMs))
    await runHotReads(soak, chance.fork(), untilResponses(tally, tally.total + floodResponses), 'flooding')
    for (
      const line of [
        `the machine stood still for ${pool.stalledMs} ms`,
        ...tally.lines,
        ...describeSnapshot('before', before)
      ]
    ) t.comment(line)
    const after = await idleSnapshot(program, configOf, openFiles)
    const requests = tally.total - requestsBefore

    for (const line of [...sharesOf(after.series), ...describeSnapshot('after', after)]) t.comment(line)
    for (const line of [...program.stderrLines, ...program.errors.map(error => JSON.stringify(error))]) {
      t.comment(
        `varve: ${line}`
      )
    }
    compareSnapshots(t, before, after, requests)
    t.same(tally.reports, [], `every response is right; SEED=${seed} repeats this run`)
    t.ok(
      grantedUnderTrouble < tally.total / 50,
      `${grantedUnderTrouble} responses were worse than necessary: upstreams accept no more requests`
    )
    const grantedAfter = tally.sumOf('tolerated') - grantedUnderTrouble
    t.ok(
      grantedAfter < requests / 1000,
      `${grantedAfter} responses were when all was healthy again, as where a burst comes upon a machine that has ` +
        'other things to do'
    )
    t.equal(sumOfSeries(after.series, 'varve_chain_resets_total'), 0, 'no fault was taken for another chain')
    t.equal(sumOfSeries(after.series, 'varve_corrupt_entries_total'), 0)
    if (hasDisk) {
      const onDisk = (name: string): number => after.series.get(`${name}{tier="disk"}`) ?? 0
      t.ok(onDisk('varve_cache_evictions_total') > 0, 'the disk was full')
      t.ok(onDisk('varve_cache_bytes') <= 1.1 * onDisk('varve_cache_max_bytes'), `${onDisk('varve_cache_bytes')} bytes`)
    }
    const audited = (result: string): number => after.series.get(`varve_audit_total{result="${result}"}`) ?? 0
    t.comment(`audits: ${auditResults.map(result => `${result} ${audited(result)}`).join(', ')}`)
    t.equal(audited('different'), 0, 'no audit found a wrong entry')
    t.ok(audited('equal') > 100, `${audited('equal')} entries were equal`)
    t.equal(
      sumOfSeries(after.series, 'varve_follow_observed_total', 'result="different"'),
      0,
      'following is never wrong'
    )
    t.equal(sumOfSeries(after.series, 'varve_follow_verified_total', 'result="different"'), 0)
    t.ok(requests >= leastResponses, `${requests} responses`)
    await stopUnderLoad(t, soak, chance)
    t.same(program.stderrLines, [], 'varve wrote nothing to standard error')
    t.same(program.errors, [], 'varve logged no error')
  }
)

/** Runs clients, an operator and faults of every kind until the end, and waits until all is healthy. */
async function live (
  soak: SoakRun,
  large: LargeRead,
  redis: RedisProcess,
  tiers: LowerTiers,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  const { world: { pool, chain }, tally } = soak
  const onFault = (name: string): void => {
    tally.note(`fault: ${name}`)
  }
  await Promise.all([
    clients(soak, large, chance, signal),
    runLeavingClients(soak, chance.fork(), signal),
    runScrapes(soak, signal),
    runPurges(soak, chance.fork(), signal),
    runReloads(soak, round => configurationOf(pool.upstreams, tiers, round, followMode), signal),
    injectRedisFaults(redis, chance.fork(), tally, signal),
    slowUpstreams(pool.upstreams, chance.fork(), tally, signal),
    ...pool.upstreams.map(async upstream => {
      await injectFaults(upstream, chance.fork(), { pool, chain, signal, onFault })
    })
  ])
  await until(async () => await isHealthy(soak), 'every part is healthy again')
}

/** Runs all well-behaved clients until the signal. */
async function clients (soak: SoakRun, large: LargeRead, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  await Promise.all([
    runReads(soak, chance.fork(), signal),
    runHotReads(soak, chance.fork(), signal),
    runForwardedReads(soak, chance.fork(), signal),
    runLargeReads(soak, large, chance.fork(), signal)
  ])
}

/** Makes a folder outside the checkout, which varve has until the end of the run. */
function temporaryFolder (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'varve-soak-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  return folder
}

function largeOf (chain: Chain): LargeRead {
  const { current } = chain
  const version = current.archive.block(largeHeight).firstVersion
  const request = {
    method: 'GET',
    target: `/v1/blocks/by_version/${version}?with_transactions=true`,
    headers: []
  } as const
  const rendered = new Map<string, Buffer>()
  const rightOf = (release: string): Buffer => {
    const right = rendered.get(release) ??
      expectedResponse(current, request, { height: current.archive.height, release }).body
    rendered.set(release, right)
    return right
  }
  return { request, version, rightOf }
}

/** Returns a signal that aborts after this many checked responses. */
function untilResponses (tally: Tally, count: number): AbortSignal {
  const over = new AbortController()
  const look = setInterval(() => {
    if (tally.total < count) return
    clearInterval(look)
    over.abort()
  }, 50)
  look.unref()
  return over.signal
}

/** Returns a signal that aborts when both have. */
function both (one: AbortSignal, other: AbortSignal): AbortSignal {
  const over = new AbortController()
  const look = (): void => {
    if (one.aborted && other.aborted) over.abort()
  }
  for (const each of [one, other]) each.addEventListener('abort', look, { once: true })
  return over.signal
}

/** True if varve reports nothing wrong. */
async function isHealthy ({ program }: SoakRun): Promise<boolean> {
  const { degraded } = await (await fetch(`${program.adminUrl}/readyz`)).json() as { degraded: string[] }
  return degraded.length === 0
}

function sharesOf (series: ReadonlyMap<string, number>): string[] {
  const of = (outcome: string): number => sumOfSeries(series, 'varve_requests_total', `outcome="${outcome}"`)
  const known = ['hit_memory', 'hit_disk', 'hit_redis', 'miss', 'collapsed'].reduce(
    (sum, outcome) => sum + of(outcome),
    0
  )
  return [
    `as varve counts: ${outcomeNames.map(outcome => `${outcome} ${of(outcome)}`).join(', ')}; hits from memory ${
      (100 * of('hit_memory') / known).toFixed(1)
    } %, from disk ${(100 * of('hit_disk') / known).toFixed(1)} %, from Redis ${
      (100 * of('hit_redis') / known).toFixed(1)
    } %`,
    [
      'varve_hedges_total',
      'varve_version_waits_total',
      'varve_stale_latest_total',
      'varve_redis_errors_total',
      'varve_cache_evictions_total',
      'varve_config_reloads_total',
      'varve_follow_reads_total'
    ].map(name => `${name} ${sumOfSeries(series, name)}`).join(', ')
  ]
}
