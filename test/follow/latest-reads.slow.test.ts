import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startSandbox, type Sandbox } from '#sandbox'
import { followedHit } from '../support/model/tally.js'
import { followSeriesOf } from '../support/tail.js'
import { SeededRandom } from '../support/model/seeded-random.js'
import { type TestRequest, sendRequest } from '../support/client.js'
import { until } from '../support/until.js'
import { type ConfigChange, pidsOf, type TestVarve, varveAt } from '../support/varve.js'

const seed = Number(process.env['SEED'] ?? NaN) || Date.now() % 1_000_000_000
const readsWanted = 250 * Number(process.env['RUNS_FACTOR'] ?? 1)
const limitMs = 120_000
const maxAgeMs = 250
// Timers and sockets of one busy process delay both the head and the response.
const slackMs = 50
const clients = 6

interface LatestRead {
  readonly target: string
  readonly how: TestRequest
}

const get = (target: string): LatestRead => ({ target, how: {} })
const bcs = (target: string): LatestRead => ({ target, how: { headers: { accept: 'application/x-bcs' } } })
const post = (target: string, body: object): LatestRead => ({
  target,
  how: { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
})

const oneRead: readonly LatestRead[] = [
  get('/v1/accounts/0x1'),
  get('/v1/accounts/0xcafe'),
  get('/v1/accounts/0x1/module/coin'),
  get('/v1/accounts/0x1/modules?limit=3'),
  get('/v1/accounts/0x1/resources?limit=5'),
  get('/v1/accounts/0xcafe/resources'),
  get('/v1/accounts/0x1/resource/0x1::block::BlockResource'),
  get('/v1/accounts/0x1/resource/0x1::chain_id::ChainId'),
  get('/v1/accounts/0xcafe/resource/0x1::coin::CoinStore%3C0x1::aptos_coin::AptosCoin%3E'),
  bcs('/v1/accounts/0xcafe/resource/0x1::account::Account'),
  get('/v1/accounts/0xcafe/balance/0x1::aptos_coin::AptosCoin'),
  get('/v1/accounts/0xcafe/balance/0xa'),
  post('/v1/view', { function: '0x1::timestamp::now_microseconds', type_arguments: [], arguments: [] })
]

/** Head of the ledger over time, as its node saw it. */
class HeadLog {
  readonly #heads: Array<{ readonly atMs: number, readonly version: bigint }> = []

  record (version: bigint): void {
    if (this.#heads.at(-1)?.version !== version) this.#heads.push({ atMs: performance.now(), version })
  }

  /** Returns the head at a time. */
  at (ms: number): bigint {
    return this.#heads.findLast(({ atMs }) => atMs <= ms)?.version ?? 0n
  }
}

for (const workers of [1, 2]) {
  t.test(
    `${workers} processes: every latest read is the state at its stamp, in order and in time (seed ${seed})`,
    { timeout: 2 * limitMs },
    async t => {
      const sandbox = await startSandbox({ blockMs: 0, blocks: 300, prunedBlocks: 0, seed: seed % 1000 })
      t.teardown(async () => {
        await sandbox.close()
      })
      const varve = await varveAt(t, sandbox.url, configOf(workers))
      // The node indexes its state at the first read.
      await sendRequest(sandbox.url, '/v1/accounts/0x1')
      let hitsInRow = 0
      await until(async () => {
        const { headers } = await varve.get('/v1/accounts/0x1/module/coin')
        hitsInRow = headers['cache-status'] === followedHit ? hitsInRow + 1 : 0
        return hitsInRow >= 2 * workers
      }, 'latest reads are hits')
      const chance = new SeededRandom(seed)
      const heads = new HeadLog()
      const enough = new AbortController()
      const signal = AbortSignal.any([enough.signal, AbortSignal.timeout(limitMs)])
      const growth = grow(sandbox, heads, chance.fork(), signal)
      const counts = { reads: 0, hits: 0 }
      await Promise.all(
        Array.from({ length: clients }, async () => {
          await readLatest(t, { sandbox, varve, heads, counts }, chance.fork(), signal)
        })
      )
      enough.abort()
      await growth
      for (const [name, value] of await followSeriesOf(varve)) t.comment(`${name} ${value}`)
      t.comment(`${counts.reads} reads, ${counts.hits} hits`)
      t.ok(counts.reads >= readsWanted, `${counts.reads} reads`)
      t.ok(counts.hits > counts.reads / 5, `${counts.hits} hits`)
      t.equal(await varve.metric('varve_audit_total{result="different"}'), 0)
      t.equal(await varve.metric('varve_follow_verified_total{result="different"}'), 0)
    }
  )
}

function configOf (workers: number): ConfigChange {
  return {
    workers,
    upstream: { maxConcurrent: 64 },
    follow: { mode: 'on', maxAgeMs, verify: 0.2 },
    audit: { share: 0.01, followedShare: 0.1 },
    head: { pollMs: 200 }
  }
}

async function grow (sandbox: Sandbox, heads: HeadLog, chance: SeededRandom, signal: AbortSignal): Promise<void> {
  heads.record(sandbox.ledger.head.version)
  while (!signal.aborted) {
    await pause(chance.integerBetween(5, 120))
    sandbox.ledger.grow(chance.happens(0.1) ? 4 : 1)
    heads.record(sandbox.ledger.head.version)
  }
}

interface Run {
  readonly sandbox: Sandbox
  readonly varve: TestVarve
  readonly heads: HeadLog
  readonly counts: { reads: number, hits: number }
}

/** Reads latest state as one client, and compares each response with the node's at the stamped version. */
async function readLatest (
  t: Test,
  { sandbox, varve, heads, counts }: Run,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  let seen = 0n
  while (!signal.aborted && counts.reads < readsWanted) {
    const read = oneRead[chance.integerBelow(oneRead.length)]
    if (read === undefined) continue
    const { target, how } = read
    const sentAtMs = performance.now()
    const { status, headers, body } = await sendRequest(varve.url, target, how)
    const stamp = BigInt(String(headers['x-aptos-ledger-version']))
    const wanted = `${target}${target.includes('?') ? '&' : '?'}ledger_version=${stamp}`
    const right = await sendRequest(sandbox.url, wanted, how)
    counts.reads++
    if (headers['cache-status'] === followedHit) counts.hits++
    const least = heads.at(sentAtMs - maxAgeMs - slackMs)
    const about = `${target} at ${stamp}, ${String(headers['cache-status'])}`
    if (status !== right.status || body !== right.body) t.equal(body, right.body, about)
    if (stamp < least) t.fail(`${about}: older than ${least}`)
    if (stamp < seen) t.fail(`${about}: before ${seen}, which the client has seen`)
    seen = stamp
    // Reads an explicit version of the recent past, which intervals may answer.
    if (chance.happens(0.3)) {
      const past = stamp - BigInt(chance.integerBelow(200))
      const pinned = `${target}${target.includes('?') ? '&' : '?'}ledger_version=${past}`
      const [given, expected] = [await sendRequest(varve.url, pinned, how), await sendRequest(sandbox.url, pinned, how)]
      if (given.body !== expected.body) {
        t.equal(given.body, expected.body, `${pinned}: ${String(given.headers['cache-status'])}`)
      }
    }
    await pause(chance.integerBelow(10))
  }
}

t.test('another worker reads the tail once the one that did is gone', { timeout: limitMs }, async t => {
  const sandbox = await startSandbox({ blockMs: 50, blocks: 300, prunedBlocks: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const varve = await varveAt(t, sandbox.url, configOf(2))
  const hits = async (): Promise<number> =>
    await varve.metric('varve_requests_total{endpoint="account_module",outcome="hit_followed",status="200"}') ?? 0
  const hitsMore = async (what: string): Promise<void> => {
    const before = await hits()
    await until(async () => {
      await varve.get('/v1/accounts/0x1/module/coin')
      return await hits() > before + 5
    }, what)
  }
  await hitsMore('latest reads are hits')
  const { workers } = await (await fetch(`${varve.adminUrl}/status.json`)).json() as { workers: Array<{ pid: number }> }
  // One of the two reads the tail, and the test need not know which.
  for (const { pid } of workers) {
    process.kill(pid, 'SIGKILL')
    await hitsMore('latest reads are hits again')
    // The address of port 0 is lost with the last worker that listens.
    await until(async () => {
      const pids = await pidsOf(varve)
      return pids.length === 2 && !pids.includes(pid)
    }, 'another worker has replaced it')
  }
  t.equal(await varve.metric('varve_workers_lost_total'), 2)
})
