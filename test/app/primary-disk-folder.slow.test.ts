import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { memoryHitStatus } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { diskHit, startAt as startOn, startNode, statusOf, store, token } from '../support/disk-tier.js'
import { scrape } from '../support/scrape.js'
import { until } from '../support/until.js'
import { type TestVarve } from '../support/varve.js'
import { allPidsOf } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

const workers = 2
const modulesAt = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const startAt = async (t: Test, node: Sandbox, path: string): Promise<TestVarve> =>
  await startOn(t, node.url, path, { workers, log: { level: 'silent' } })

async function started (t: Test, path: string): Promise<{ node: Sandbox, varve: TestVarve }> {
  const node = await startNode(t)
  const varve = await startAt(t, node, path)
  await until(async () => (await chainsOf(varve)).length === 1, 'the workers use one space')
  node.requests.reset()
  return { node, varve }
}

/** Expects reads to be fetched from the upstream, and waits until they are on the disk. */
async function fetchAndStore (
  t: Test,
  { node, varve }: { node: Sandbox, varve: TestVarve },
  target: string
): Promise<void> {
  const before = node.requests.countFor('account_modules')
  await store(varve, [target])
  t.equal(node.requests.countFor('account_modules'), before + 1)
}

/** Reads on new connections, which the workers take in turn, until each worker has had some. */
async function statusesOf (varve: TestVarve, target: string): Promise<unknown[]> {
  const seen = []
  for (let nth = 0; nth < 2 * workers + 1; nth++) seen.push(await statusOf(varve, target))
  return seen
}

/** Returns the spaces that the workers use. */
async function chainsOf ({ adminUrl }: TestVarve): Promise<readonly unknown[]> {
  return (await scrape(adminUrl)).get('varve_chain_info')?.series ?? []
}

async function purge (varve: TestVarve, what: object): Promise<number> {
  const { status } = await sendRequest(varve.adminUrl, '/purge', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(what)
  })
  return status
}

t.test('workers share a folder: each hits what the other wrote, and a purge reaches both', async t => {
  const path = testFolder(t)
  const { node, varve } = await started(t, path)
  const targets = [1500, 1501, 1502, 1503].map(modulesAt)
  for (const target of targets) {
    await fetchAndStore(t, { node, varve }, target)
    const seen = await statusesOf(varve, target)
    t.equal(seen.filter(status => status === diskHit).length, 1, 'the worker that did not write it reads it once')
    t.equal(seen.filter(status => status === memoryHitStatus).length, seen.length - 1)
  }
  t.equal(node.requests.countFor('account_modules'), targets.length, 'the upstream was asked once for each')
  t.equal(await varve.metric('varve_cache_entries{tier="disk"}'), targets.length, 'no worker counts an entry again')

  const [target = '', ...others] = targets
  t.equal(await purge(varve, { method: 'GET', url: target }), 200)
  await fetchAndStore(t, { node, varve }, target)
  const seen = await statusesOf(varve, target)
  t.equal(seen.filter(status => status === diskHit).length, 1, 'the other worker had lost its copy in memory too')
  for (const other of others) t.equal(await statusOf(varve, other), memoryHitStatus)

  t.equal(await purge(varve, { all: true }), 200)
  t.match(await chainsOf(varve), [{ labels: { space: /^[0-9a-f]{16}$/ }, value: 1 }], 'all name one space')
  for (const each of targets) {
    await fetchAndStore(t, { node, varve }, each)
    t.ok((await statusesOf(varve, each)).includes(diskHit))
  }
  await t.rejects(startAt(t, node, path), /cache\.disk\.path .* cannot be used: another varve \(process \d+\) uses it/)
  await varve.stop({ drainMs: 0 })
  node.requests.reset()
  const next = await startAt(t, node, path)
  for (const each of targets) t.equal(await statusOf(next, each), diskHit)
  t.match(JSON.parse((await sendRequest(next.adminUrl, '/readyz')).body), { level: 'green', degraded: [] })
  t.match(JSON.parse((await sendRequest(next.adminUrl, '/status.json')).body), {
    // Entries of the space before the purge stay until they are evicted.
    tiers: { disk: { state: 'up', entries: 2 * targets.length } }
  })
})

t.test('workers that are killed while they write the same entries leave no damage', async t => {
  const path = testFolder(t)
  const { node, varve } = await started(t, path)
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
  await until(async () => (await readdir(join(path, 'tmp'))).every(name => !/^\d+-/.test(name)), 'no file is left over')
})
