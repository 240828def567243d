import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { configSchema } from '../../src/config/schema.js'
import { memoryHitStatus } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { diskHit, startAt as startOn, startNode, statusOf, token } from '../support/disk-tier.js'
import { until } from '../support/until.js'
import { allPidsOf, type TestVarve } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

const workers = 2
const modulesAt = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const targets = [1500, 1501, 1502, 1503].map(modulesAt)
const startAt = async (t: Test, node: Sandbox, path: string): Promise<TestVarve> =>
  await startOn(t, node.url, path, { workers, log: { level: 'error' } })

/** Reads on new connections, which the workers take in turn, until each worker has had some. */
async function statusesOf (varve: TestVarve, target: string): Promise<unknown[]> {
  const seen = []
  for (let nth = 0; nth < 2 * workers + 1; nth++) seen.push(await statusOf(varve, target))
  return seen
}

/** Reads until every worker has an entry on its disk. */
async function storeInAll (varve: TestVarve, target: string): Promise<void> {
  const written = async (): Promise<number> => await varve.metric('varve_cache_writes_total{tier="disk"}') ?? 0
  let before = -1
  await until(async () => {
    const last = before
    before = await written()
    return before === last
  }, 'no write is on its way')
  await until(async () => {
    await varve.get(target)
    return await written() === before + workers
  }, `${target} is on the disk of every worker`)
}

async function purge (varve: TestVarve, what: object): Promise<number> {
  const { status } = await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(what)
  })
  return status
}

t.test('each worker has a folder of its own, whose entries it serves again after a restart', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const varve = await startAt(t, node, path)
  for (const target of targets) await storeInAll(varve, target)
  await t.rejects(startAt(t, node, path), /cache\.disk\.path .* cannot be used: another varve \(process \d+\) uses it/)
  await varve.stop({ drainMs: 0 })
  node.requests.reset()
  const next = await startAt(t, node, path)
  for (const target of targets) {
    t.same([...new Set(await statusesOf(next, target))].sort(), [diskHit, memoryHitStatus].sort())
  }
  t.equal(node.requests.countFor('account_modules'), 0)
  t.match(JSON.parse((await sendRequest(next.adminUrl, '/readyz')).body), { level: 'green', degraded: [] })
  t.match(JSON.parse((await sendRequest(next.adminUrl, '/status.json')).body), {
    tiers: { disk: { state: 'up', entries: workers * targets.length } }
  })
})

t.test('a purge reaches every worker, also one that dies and one that starts, for good', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const varve = await startAt(t, node, path)
  const [all = '', one = '', dying = '', starting = ''] = targets
  await storeInAll(varve, all)
  t.equal(await purge(varve, { all: true }), 200)
  t.notOk((await statusesOf(varve, all)).includes(diskHit), 'everything')
  await storeInAll(varve, one)
  t.equal(await purge(varve, { method: 'GET', url: one }), 200)
  t.notOk((await statusesOf(varve, one)).includes(diskHit), 'one read')
  for (const [target, when] of [[dying, 'at once'], [starting, 'later']] as const) {
    await storeInAll(varve, target)
    const pids = await allPidsOf(varve, workers)
    process.kill(pids[0] ?? 0, 'SIGKILL')
    if (when === 'later') {
      await until(() => varve.log.some(({ lost }) => lost === pids[0]), 'a replacement starts')
    }
    // The worker that purges first may be the one that died.
    await until(
      async () => [200, 202].includes(await purge(varve, { method: 'GET', url: target })),
      'the purge is acknowledged'
    )
    await allPidsOf(varve, workers)
    t.notOk((await statusesOf(varve, target)).includes(diskHit), when)
  }
})

t.test('a purge reaches the folder that no worker has, before another worker takes it', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const varve = await startAt(t, node, path)
  const [target = ''] = targets
  await storeInAll(varve, target)
  const config = configSchema.parse({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token },
    upstreams: [{ name: 'node', url: node.url }],
    head: { pollMs: 600_000 },
    audit: { share: 0 },
    workers,
    cache: { disk: { path, maxGb: 0.1 } }
  })
  // A new worker starts in a third folder, so one of the others is left.
  await varve.reload(config)
  t.equal(await purge(varve, { method: 'GET', url: target }), 200)
  await varve.reload({ ...config, waitForVersion: { ms: 1 } })
  t.notOk((await statusesOf(varve, target)).includes(diskHit))
})

t.test('a purge that a hanging worker never confirms holds in its folder once the worker is killed', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const varve = await startAt(t, node, path)
  const [target = ''] = targets
  await storeInAll(varve, target)
  const hanging = (await allPidsOf(varve, workers)).at(-1) ?? NaN
  process.kill(hanging, 'SIGSTOP')
  // A purge empties the folder that no worker has while the other workers purge.
  const free = join(path, String(workers + 1))
  mkdirSync(free)
  const purged = purge(varve, { method: 'GET', url: target })
  await until(() => !existsSync(free), 'the hanging worker is to purge')
  process.kill(hanging, 'SIGKILL')
  t.equal(await purged, 202)
  await until(async () => !(await allPidsOf(varve, workers)).includes(hanging), 'another worker has replaced it')
  t.notOk((await statusesOf(varve, target)).includes(diskHit))
})

t.test('workers that are killed while they write the same entries leave no damage', async t => {
  const path = testFolder(t)
  const node = await startNode(t)
  const varve = await startAt(t, node, path)
  const truth = new Map<string, string>()
  for (let version = 1300; version < 1400; version++) {
    for (const target of [modulesAt(version), `/v1/blocks/by_version/${version}`]) {
      truth.set(target, (await sendRequest(node.url, target)).body)
    }
  }
  let wrong = 0
  for (let round = 0; round < 3; round++) {
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
    if (round === 0) t.equal(await purge(varve, { all: true }), 200)
  }
  await allPidsOf(varve, workers)
  for (const [target, right] of truth) if ((await varve.get(target)).body !== right) wrong++
  t.equal(wrong, 0, 'every response is the upstream\'s')
  t.equal(await varve.metric('varve_corrupt_entries_total'), 0)
})
