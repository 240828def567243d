import t, { type Test } from 'tap'
import { fuzz } from './support/fuzz/fuzz.js'
import { startRedis } from './support/redis-server.js'
import { type Tally } from './support/model/tally.js'

// Draws another seed each run: SEED=n repeats one. FUZZ_REQUESTS=n and FUZZ_MINUTES=n replace the limit of ten thousand
// requests.
const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const minutes = Number(process.env['FUZZ_MINUTES'] ?? NaN) || undefined
const requests = Number(process.env['FUZZ_REQUESTS'] ?? NaN) || (minutes === undefined ? 10_000 : Infinity)
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
    const redis = await startRedis(t)
    const begunAt = performance.now()
    const { tally, found } = await fuzz(seed, { requests, ms: limitMs }, async () => redis)
    const seconds = Math.round((performance.now() - begunAt) / 1000)
    for (const line of [`seed ${seed}`, `${tally.total} requests in ${seconds} s`, ...tally.lines]) t.comment(line)
    process.stderr.write(
      `varve: ${tally.total} requests in ${seconds} s, ${percent(tally, 'hit')} hits, ${
        percent(tally, 'pruned hit')
      } of what is pruned, ${percent(tally, 'stored')} cached, ${percent(tally, 'forwarded')} forwarded, ${
        percent(tally, 'rejected')
      } refused\n`
    )
    if (found !== undefined) {
      const line = JSON.stringify(found.case)
      process.stderr.write(
        `varve: a response is wrong; SEED=${found.seed} FUZZ_REQUESTS=500 takes it again, and this line ` +
          `belongs in test/cases/shrunk.jsonl:\n${line}\n`
      )
      t.fail(`${found.case.why}; SEED=${found.seed} repeats it`)
      return
    }
    if (requests >= wholeRun) exercises(t, tally)
    else t.ok(tally.total >= requests, `${tally.total} requests`)
  }
)

const percent = (tally: Tally, outcome: string): string => `${Math.round(100 * tally.shareOf(outcome))} %`

/** Expects every outcome: a run in which hardly anything happened proves nothing. */
function exercises (t: Test, tally: Tally): void {
  const hits = tally.shareOf('hit') + tally.shareOf('pruned hit')
  t.ok(hits >= 0.2, `${Math.round(100 * hits)} % of the requests were hits`)
  t.ok(tally.shareOf('rejected') <= 0.6, `${percent(tally, 'refused')} of the requests were rejected`)
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
      'the ledger grew',
      'the ledger was pruned',
      'the node was upgraded',
      'a purge',
      'redis hit',
      'would be a hit',
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
    for (const hit of ['hit', 'redis hit']) t.ok(tally.countOf(`${hit} of ${endpoint}`) > 0, `${hit}s of ${endpoint}`)
  }
}
