import t, { type Test } from 'tap'
import { Client } from 'undici'
import { withTimeout } from '../src/with-timeout.js'
import { followModeOf } from './support/tail.js'
import { SeededRandom } from './support/model/seeded-random.js'
import { type RedisProcess } from './support/redis-server.js'
import { startRedis } from './support/redis-server.js'
import { readOnce, runLeaving, runReads, runStreams } from './support/soak/clients.js'
import {
  compareSnapshots,
  openFilesOf,
  type ProcessSnapshot,
  seriesOf,
  sumOfSeries,
  takeSnapshot,
  upstreamRequestsInFlight
} from './support/soak/process-snapshot.js'
import { Soak } from './support/soak/soak.js'
import { runTrouble } from './support/soak/trouble.js'
import { testFolder } from './support/test-folder.js'
import { until } from './support/until.js'

// SEED=n repeats a seed, SOAK_SECONDS=n runs longer.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const seconds = Number(process.env['SOAK_SECONDS'] ?? 60)
const followMode = followModeOf(seed)
// DISK=on and DISK=off choose; else every other seed has the disk tier in front of Redis.
const hasDisk = (process.env['DISK'] ?? (seed % 2 === 0 ? 'on' : 'off')) === 'on'
const [warmMs, calmMs] = [8000, 5000]
// Time before and after the faults, together.
const troubledMs = Math.max(10_000, seconds * 1000 - 28_000)
// Lets small leaks show; a busy machine takes longer for them.
const warmResponses = 6000
const leastResponses = 10_000
const disk = hasDisk ? 'with' : 'no'

t.test(
  `${seconds} s of faults, follow ${followMode}, ${disk} disk: no leak, no wrong response (seed ${seed})`,
  { timeout: (3 * seconds + 120) * 1000 },
  async t => {
    const chance = new SeededRandom(seed)
    const redis = await startRedis(t)
    const options = { seed, followMode, redisUrl: redis.url, diskPath: hasDisk ? testFolder(t) : null }
    const soak = await Soak.start(t, options)
    const { program, tally } = soak
    const openFiles = openFilesOf(program)

    // Fills every bounded structure, such as the parsed-request cache, before the first measurement.
    await runReads(soak, chance.fork(), untilResponses(soak, warmResponses), true)
    await calm(soak, chance, AbortSignal.timeout(warmMs))
    // Runs faults once before the first measurement of a long run, so that one-time work is done.
    if (seconds > 120) await trouble(soak, redis, chance, AbortSignal.timeout(45_000))
    const before = await idleSnapshot(soak, openFiles)
    const responsesBefore = tally.total
    t.ok(sumOfSeries(await seriesOf(program), 'varve_cache_evictions_total') > 0, 'memory was full')

    await trouble(soak, redis, chance, AbortSignal.timeout(troubledMs))
    const unavailable = tally.sumOf('tolerated')
    await calm(soak, chance, AbortSignal.timeout(calmMs))
    await runReads(soak, chance.fork(), untilResponses(soak, leastResponses), true)
    const unavailableLater = tally.sumOf('tolerated') - unavailable
    const after = await idleSnapshot(soak, openFiles, before)
    const series = await seriesOf(program)
    const counts = [...series].filter(([name, value]) => value > 0 && /^varve_(?:requests|audit)_total/.test(name))
    for (const line of [...tally.lines, ...counts.map(count => count.join(' '))]) t.comment(line)

    t.same(tally.reports, [], `every response is right; SEED=${seed} repeats this run`)
    compareSnapshots(t, before, after, tally.total - responsesBefore)
    t.ok(unavailable < tally.total / 20, `${unavailable} of ${tally.total} responses were 503 while a node failed`)
    t.ok(unavailableLater < leastResponses / 100, `${unavailableLater} were 503 when all was healthy again`)
    checkSeries(t, series)
    await checkRedis(t, redis)
    await stopUnderLoad(t, soak, chance)
    t.same(program.stderrLines, [], 'varve wrote nothing to standard error')
    t.same(program.errors, [], 'varve logged no error')
  }
)

async function calm (soak: Soak, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  await Promise.all([runReads(soak, chance.fork(), signal), runStreams(soak, chance.fork(), signal)])
}

async function trouble (soak: Soak, redis: RedisProcess, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  await Promise.all([
    calm(soak, chance, signal),
    runLeaving(soak, chance.fork(), signal),
    runTrouble(soak, redis, chance.fork(), signal)
  ])
}

/** Measures an idle varve. Reloads empty the parsed-request cache before, whose megabytes would hide the rest. */
async function idleSnapshot (soak: Soak, openFiles: number, before?: ProcessSnapshot): Promise<ProcessSnapshot> {
  for (const round of [1, 0]) await soak.reload(round)
  return await takeSnapshot(soak.program, openFiles, before)
}

/** Ends a flood after this many judged responses more. */
function untilResponses ({ tally }: Soak, more: number): { readonly aborted: boolean } {
  const enough = tally.total + more
  return {
    get aborted () {
      return tally.total >= enough
    }
  }
}

/** Expects every tier to be bounded and every check of varve itself to find no difference. */
function checkSeries (t: Test, series: ReadonlyMap<string, number>): void {
  for (
    const [name, ...labels] of [
      ['varve_chain_resets_total'],
      ['varve_corrupt_entries_total'],
      ['varve_audit_total', 'result="different"'],
      ['varve_follow_observed_total', 'result="different"'],
      ['varve_follow_verified_total', 'result="different"']
    ] as const
  ) t.equal(sumOfSeries(series, name, ...labels), 0, `${name} ${labels.join()}`)
  const equal = sumOfSeries(series, 'varve_audit_total', 'result="equal"')
  t.ok(equal > 100, `audits found ${equal} entries equal`)
  if (!hasDisk) return
  const onDisk = (name: string): number => series.get(`${name}{tier="disk"}`) ?? 0
  t.ok(onDisk('varve_cache_evictions_total') > 0, 'the disk was full')
  t.ok(onDisk('varve_cache_bytes') <= 1.1 * onDisk('varve_cache_max_bytes'), `${onDisk('varve_cache_bytes')} bytes`)
}

/** Expects every key to expire. */
async function checkRedis (t: Test, { client }: RedisProcess): Promise<void> {
  const keys = await client.keys('*')
  const ttls = await Promise.all(keys.map(async key => await client.ttl(key)))
  t.ok(keys.length > 0, `${keys.length} keys in Redis`)
  t.same(keys.filter((_, at) => ttls[at] === -1), [], 'every key in Redis expires')
}

/** Stops varve under load: it finishes received requests and exits with 0. */
async function stopUnderLoad (t: Test, soak: Soak, chance: SeededRandom): Promise<void> {
  const { program, nodes, tally } = soak
  const failures = tally.reports.length
  for (const { faults } of nodes) faults.add({ kind: 'slow', ms: 400 })
  const clients = Array.from({ length: 60 }, () => new Client(program.url))
  const responses = Promise.all(clients.map(async client => {
    await readOnce(soak, client, soak.draw(chance, true))
  }))
  await until(async () => upstreamRequestsInFlight(await seriesOf(program)) > 0, 'upstream requests are in progress')
  program.terminate()
  t.equal(await withTimeout(10_000, program.ended), 0, 'it ends')
  await responses
  for (const client of clients) await client.destroy()
  t.same(tally.reports.slice(failures), [], 'requests received before the signal get responses')
}
