import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { diskHit, purge, startAt as startOn, startNode, statusOf, store, token } from '../support/disk-tier.js'
import { until } from '../support/until.js'
import { allPidsOf, type TestVarve } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

const workers = 2
const modulesAt = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const targets = [1500, 1501, 1502, 1503].map(modulesAt)
const startAt = async (t: Test, node: Sandbox, path: string): Promise<TestVarve> =>
  await startOn(t, node.url, path, { workers, log: { level: 'error' } })

/** Reads on new connections, which the workers take in turn, until each worker has had some. */
async function readInAll (varve: TestVarve, target: string): Promise<{ how: unknown[], bodies: Set<string> }> {
  const [how, bodies] = [[] as unknown[], new Set<string>()]
  for (let nth = 0; nth < 2 * workers + 1; nth++) {
    const { headers, body } = await varve.get(target)
    how.push(headers['cache-status'])
    bodies.add(body)
  }
  return { how, bodies }
}

// Shares one set of processes among these tests, because they are slow to start.
t.test('workers share one log on disk', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const fetches = (): number => node.requests.countFor('account_modules')
  const start = async (): Promise<TestVarve> => await startAt(t, node, path)
  let varve = await start()
  const [all = '', one = '', dying = '', starting = ''] = targets

  await t.test('what one worker stores is a hit at every other, at once and after a restart', async t => {
    await store(varve, targets)
    t.equal(fetches(), targets.length)
    // Another worker learns of an entry a moment later.
    await until(async () => {
      const before = fetches()
      for (const target of targets) await readInAll(varve, target)
      return fetches() === before
    }, 'every worker finds them')
    t.ok(fetches() <= 2 * targets.length)
    await t.rejects(
      startAt(t, node, path),
      /cache\.disk\.path .* cannot be used: another varve \(process \d+\) uses it/
    )
    await varve.stop({ drainMs: 0 })
    node.requests.reset()
    varve = await start()
    for (const target of targets) t.ok((await readInAll(varve, target)).how.includes(diskHit))
    t.equal(fetches(), 0)
    t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), { level: 'green', degraded: [] })
    const { tiers: { disk } } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
      tiers: { disk: { entries: number, maxBytes: number } }
    }
    t.match(disk, { state: 'up', entries: targets.length, maxBytes: Math.floor(0.1 * 1024 ** 3) })
    t.equal(await varve.metric('varve_cache_entries{tier="disk"}'), targets.length, 'each entry counts once')
  })

  await t.test('a purge reaches every worker, also one that dies and one that starts, for good', async t => {
    for (const what of [{ all: true }, { method: 'GET', url: one }]) {
      const target = 'url' in what ? one : all
      await readInAll(varve, target)
      const before = fetches()
      t.equal(await purge(varve, what), 200)
      await readInAll(varve, target)
      t.ok(fetches() > before, 'the entry is fetched again')
    }
    for (const [target, when] of [[dying, 'at once'], [starting, 'later']] as const) {
      await readInAll(varve, target)
      const pids = await allPidsOf(varve, workers)
      process.kill(pids[0] ?? 0, 'SIGKILL')
      if (when === 'later') {
        await until(() => varve.log.some(({ lost }) => lost === pids[0]), 'a replacement starts')
      }
      const before = fetches()
      // The worker that purges first may be the one that died.
      await until(
        async () => [200, 202].includes(await purge(varve, { method: 'GET', url: target })),
        'the purge is acknowledged'
      )
      await allPidsOf(varve, workers)
      await readInAll(varve, target)
      t.ok(fetches() > before, when)
    }
  })

  await t.test('a purge that a hanging worker never confirms is 202, and holds once it is replaced', async t => {
    for (const nth of [0, 1]) {
      await readInAll(varve, all)
      const hanging = (await allPidsOf(varve, workers))[nth] ?? NaN
      process.kill(hanging, 'SIGSTOP')
      t.equal(await purge(varve, { method: 'GET', url: all }), 202)
      if (!varve.log.some(({ lost }) => lost === hanging)) process.kill(hanging, 'SIGKILL')
      await until(async () => !(await allPidsOf(varve, workers)).includes(hanging), 'another worker has replaced it')
      const before = fetches()
      await readInAll(varve, all)
      t.ok(fetches() > before)
    }
  })

  await t.test('after a reload the new workers read what the old ones stored, and purge it', async t => {
    const kept = modulesAt(1504)
    await store(varve, [kept])
    node.requests.reset()
    await varve.reload(configSchema.parse({
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0', token },
      upstreams: [{ name: 'node', url: node.url }],
      head: { pollMs: 600_000 },
      audit: { share: 0 },
      workers,
      cache: { disk: { path, maxGb: 0.1 } }
    }))
    t.ok((await readInAll(varve, kept)).how.includes(diskHit))
    t.equal(fetches(), 0)
    t.equal(await purge(varve, { method: 'GET', url: kept }), 200)
    t.notOk((await statusOf(varve, kept) as string).includes('hit'))
  })
})

t.test('a stopped worker holds up no write and no eviction of the others', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const varve = await startOn(t, node.url, path, { workers, log: { level: 'error' } }, 0.001)
  await store(varve, targets)
  const hanging = (await allPidsOf(varve, workers)).at(-1) ?? NaN
  process.kill(hanging, 'SIGSTOP')
  const written = async (): Promise<number> => await varve.metric('varve_cache_writes_total{tier="disk"}') ?? 0
  const before = await written()
  for (let version = 1000; version < 1100; version++) {
    // The stopped worker accepts no connection to its end.
    await Promise.race([varve.get(modulesAt(version)), new Promise(resolve => setTimeout(resolve, 300))])
  }
  t.ok(await written() - before > 20)
})

t.test('workers that are killed while they append serve the truth and stay within the room', async t => {
  const maxGb = 0.002
  const path = testFolder(t)
  const node = await startNode(t)
  const varve = await startOn(t, node.url, path, { workers, log: { level: 'error' } }, maxGb)
  const truth = new Map<string, string>()
  for (let version = 1300; version < 1400; version++) {
    for (const target of [modulesAt(version), `/v1/blocks/by_version/${version}`]) {
      truth.set(target, (await sendRequest(node.url, target)).body)
    }
  }
  let wrong = 0
  for (const isFirst of [true, false]) {
    const [pid = 0] = await allPidsOf(varve, workers)
    let responses = 0
    const reads = Promise.all([0, 1, 2, 3].map(async () => {
      for (const [target, right] of truth) {
        // A killed worker cuts its connections.
        const got = await varve.get(target).catch(() => undefined)
        responses++
        if (got !== undefined && (got.status !== 200 || got.body !== right)) wrong++
      }
    }))
    await until(() => responses > 100, 'the load has begun')
    process.kill(pid, 'SIGKILL')
    await reads
    if (isFirst) t.equal(await purge(varve, { all: true }), 200)
    const log = join(path, 'log')
    const bytes = readdirSync(log).reduce((sum, name) => {
      const found = statSync(join(log, name), { throwIfNoEntry: false })
      return sum + (found?.isFile() === true ? found.size : 0)
    }, 0)
    t.ok(bytes <= maxGb * 1024 ** 3 + 10_000, `${bytes} bytes`)
  }
  await allPidsOf(varve, workers)
  for (const [target, right] of truth) if ((await varve.get(target)).body !== right) wrong++
  t.equal(wrong, 0, 'every response is the upstream\'s')
  t.equal(await varve.metric('varve_corrupt_entries_total'), 0)
})
