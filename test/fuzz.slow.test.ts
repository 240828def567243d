import t, { type Test } from 'tap'
import { fuzz } from './support/model/fuzz.js'
import { type Tally } from './support/model/tally.js'
import { type RedisProcess } from './support/redis-server.js'
import { startRedis } from './support/redis-server.js'

// Draws the same each time, so that a failure is of the change at hand; the nightly run takes other seeds.
// RUNS_FACTOR=n, FUZZ_REQUESTS=n and FUZZ_MINUTES=n run longer.
const seed = Number(process.env['SEED'] ?? 20_261_127)
const minutes = Number(process.env['FUZZ_MINUTES'] ?? NaN) || undefined
const usualRequests = 5000 * (Number(process.env['RUNS_FACTOR'] ?? NaN) || 1)
const requests = Number(process.env['FUZZ_REQUESTS'] ?? NaN) || (minutes === undefined ? usualRequests : Infinity)
const limitMs = (minutes ?? 10) * 60_000
// Checks coverage only in runs of this size: shorter runs look at single cases.
const wholeRun = 5000
// Limits the time for shrinking a failing case before it is reported.
const graceMs = 120_000

t.test(
  `varve gives random and mutated requests the responses of the upstream (seed ${seed})`,
  { timeout: limitMs + graceMs },
  async t => {
    process.stderr.write(`varve: fuzzing with SEED=${seed}\n`)
    let started: Promise<RedisProcess> | undefined
    const redis = async (): Promise<RedisProcess> => await (started ??= startRedis(t))
    const begunAt = performance.now()
    const { tally, found } = await fuzz(seed, { requests, ms: limitMs }, redis)
    const seconds = Math.round((performance.now() - begunAt) / 1000)
    for (const line of [`seed ${seed}`, `${tally.total} requests in ${seconds} s`, ...tally.lines]) t.comment(line)
    if (found !== undefined) {
      process.stderr.write(
        `varve: a response is wrong; SEED=${found.seed} FUZZ_REQUESTS=1 takes it again, and this line ` +
          `belongs in test/cases/shrunk.jsonl:\n${JSON.stringify(found.case)}\n`
      )
      t.fail(`${found.case.why}; SEED=${found.seed} repeats it`)
      return
    }
    if (tally.total >= wholeRun) exercises(t, tally)
    t.ok(tally.total > 0, `${tally.total} requests`)
  }
)

/** Expects every outcome: a run in which hardly anything happened proves nothing. */
function exercises (t: Test, tally: Tally): void {
  const percent = (outcome: string): number => Math.round(100 * tally.shareOf(outcome))
  const hits = percent('hit') + percent('pruned hit')
  t.ok(hits >= 15, `${hits} % of the requests were hits`)
  t.ok(percent('rejected') <= 60, `${percent('rejected')} % of the requests were rejected`)
  for (
    const outcome of [
      'pruned hit',
      'stored',
      'not cacheable',
      'collapsed',
      'forwarded',
      'status 304',
      'status 404',
      'status 410',
      'status 503',
      'the ledger grew',
      'the ledger was pruned',
      'the node was upgraded',
      'fault: kill',
      'fault: lag',
      'fault: fault',
      'fault: reset',
      'a purge',
      'a restart',
      'redis hit',
      'disk hit',
      'a hit with every upstream down',
      'a pinned page',
      'a pinned page from the cache',
      'evicted',
      'audit equal',
      'a followed hit'
    ]
  ) {
    t.ok(tally.countOf(outcome) > 0, `${outcome}: ${tally.countOf(outcome)}`)
  }
  for (const endpoint of ['table_item', 'account_modules', 'account_events', 'block_by_version']) {
    t.ok(tally.countOf(`hit of ${endpoint}`) > 0, `hits of ${endpoint}`)
  }
}
