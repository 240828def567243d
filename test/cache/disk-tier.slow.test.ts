import { existsSync } from 'node:fs'
import { cp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { cacheStatusHeader } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import {
  blockByVersion,
  degraded,
  diskHit,
  fill,
  modules,
  purge,
  refusal,
  startAt,
  startNode,
  statusOf,
  store
} from '../support/disk-tier.js'
import { freePort } from '../support/free-port.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

t.test('history on the disk is served after a restart, byte for byte, without the upstream', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const bodies = await fill(t, node.url, path)
  const varve = await startAt(t, node.url, path)
  node.requests.reset()
  for (const [at, target] of [modules, blockByVersion].entries()) {
    const got = await varve.get(target)
    t.match({ status: got.status, how: got.headers[cacheStatusHeader] }, { status: 200, how: diskHit })
    t.equal(got.body, bodies[at])
    t.equal(await statusOf(varve, target), 'varve; hit; detail=memory')
  }
  t.equal(await statusOf(varve, '/v1/blocks/by_version/1501'), 'varve; hit; detail=memory', 'a version of that block')
  t.ok((await varve.metric('varve_cache_entries{tier="disk"}') ?? 0) >= 2)
  t.same(await degraded(varve), [])
})

t.test('a folder is free only once the last state of the chain is in it', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const first = await startAt(t, node.url, path)
  await store(first, [modules])
  const handle = await open(path)
  const files = Object.getPrototypeOf(handle) as typeof handle
  await handle.close()
  const { sync } = files
  let syncs = 0
  t.intercept(files, 'sync', {
    value: async function (this: typeof handle) {
      syncs++
      await pause(600)
      await sync.call(this)
    }
  })
  node.ledger.grow()
  await first.get('/v1')
  await first.stop({ drainMs: 0 })
  t.ok(syncs > 0, 'a stop records the newest head')
  t.notOk(existsSync(join(path, 'log', 'spaces.new')), 'and waits for a slow disk')
})

t.test('without an upstream the stored chain is served at its position, checked once one responds', async t => {
  const [port, path] = [await freePort(), testFolder(t)]
  const first = await startNode(t, 1, port)
  await fill(t, first.url, path)
  await first.close()
  const varve = await startAt(t, first.url, path, { head: { pollMs: 50 } })
  const got = await varve.get(modules)
  t.match({ status: got.status, how: got.headers[cacheStatusHeader] }, { status: 200, how: diskHit })
  t.ok(Number(got.headers['x-node-ledger-version']) > 1500)
  t.ok((await degraded(varve)).some(text => /serving cache only/.test(text)))
  const other = await startNode(t, 2, port)
  await until(async () =>
    (await varve.get(modules)).headers[cacheStatusHeader] !== diskHit &&
    (await degraded(varve)).join() === 'the chain was reset in the last 15 minutes', 'no hit, and the reset is named')
  t.equal((await varve.get(modules)).body, (await sendRequest(other.url, modules)).body)
  // Ends its writes before the folder is removed.
  await varve.stop({ drainMs: 0 })
})

t.test('nothing of another chain is served from disk, whichever configuration or upstream names it', async t => {
  const [first, other, path] = [await startNode(t, 1), await startNode(t, 2), testFolder(t)]
  const [stored] = await fill(t, first.url, path)
  const moved = await startAt(t, other.url, path)
  const got = await moved.get(modules)
  t.match(got.headers[cacheStatusHeader], /fwd=uri-miss/)
  t.equal(got.body, (await sendRequest(other.url, modules)).body)
  t.not(got.body, stored)
  await moved.stop({ drainMs: 0 })
  const elsewhere = await startAt(t, `http://127.0.0.1:${await freePort()}`, path, { chainId: 99 })
  t.equal((await elsewhere.get(modules)).status, 503)
})

t.test('a purge is on the disk before it is acknowledged, of one read or of everything', async t => {
  const [node, path, copy] = [await startNode(t), join(testFolder(t), 'a'), join(testFolder(t), 'b')]
  await fill(t, node.url, path)
  for (
    const [what, left] of [[{ method: 'GET', url: modules }, 1], [{ method: 'GET', url: blockByVersion }, 0]] as const
  ) {
    const varve = await startAt(t, node.url, path)
    t.equal(await purge(varve, what), 200)
    // The folder as a process would find it that starts after a crash at this moment.
    await rm(copy, { recursive: true, force: true })
    await cp(path, copy, { recursive: true, filter: source => !source.endsWith('lock') })
    await varve.stop({ drainMs: 0 })
    const next = await startAt(t, node.url, copy)
    const hits = [await statusOf(next, modules), await statusOf(next, blockByVersion)].filter(how => how === diskHit)
    t.equal(hits.length, left, JSON.stringify(what))
    await next.stop({ drainMs: 0 })
  }
  const varve = await startAt(t, node.url, path)
  await store(varve, [modules])
  for (let times = 0; times < 6; times++) t.equal(await purge(varve, { all: true }), 200)
  await rm(copy, { recursive: true, force: true })
  await cp(path, copy, { recursive: true, filter: source => !source.endsWith('lock') })
  const next = await startAt(t, node.url, copy)
  t.match(await statusOf(next, modules), /fwd=uri-miss/)
})

t.test('with Redis the disk is asked first, and both agree on the space and purges', async t => {
  const [node, path, redis] = [await startNode(t), testFolder(t), await startRedis(t)]
  const config = { cache: { redis: { url: redis.url } } }
  const varve = await startAt(t, node.url, path, config)
  await until(async () => (await degraded(varve)).length === 0, 'replicas agree')
  await store(varve, [modules, blockByVersion])
  await varve.stop({ drainMs: 0 })
  const second = await startAt(t, node.url, path, config)
  await until(async () => (await degraded(second)).length === 0, 'replicas agree')
  t.equal(await statusOf(second, modules), diskHit)
  t.equal(await purge(second, { method: 'GET', url: blockByVersion }), 200)
  t.match(await statusOf(second, blockByVersion), /fwd=uri-miss/)
  await second.stop({ drainMs: 0 })
  await redis.stop()
  const third = await startAt(t, node.url, path, config)
  t.equal(await statusOf(third, modules), diskHit, 'the folder alone proves its space')
})

t.test('a folder and a Redis that know two chains of one chain id never mix them', async t => {
  const [node, other, path, redis] = [await startNode(t, 1), await startNode(t, 2), testFolder(t), await startRedis(t)]
  await fill(t, node.url, path)
  const rival = await varveAt(t, other.url, { cache: { redis: { url: redis.url } } })
  await rival.get(modules)
  await until(async () => await rival.metric('varve_cache_writes_total{tier="redis"}') === 1, 'it is in Redis')
  const varve = await startAt(t, node.url, path, { cache: { redis: { url: redis.url } } })
  await until(async () => (await degraded(varve)).length === 0, 'replicas agree')
  for (const [one, { url }] of [[varve, node], [rival, other]] as const) {
    t.equal((await one.get(modules)).body, (await sendRequest(url, modules)).body)
  }
})

t.test('damage at any byte of any file of the folder is a miss at most', async t => {
  const node = await startNode(t)
  const flip = (share: number) => (bytes: Buffer): Buffer => {
    const copy = Buffer.from(bytes)
    const at = Math.floor(share * (copy.length - 1))
    if (copy.length > 0) copy[at] = (copy[at] ?? 0) ^ 1
    return copy
  }
  const cut = (bytes: Buffer): Buffer => bytes.subarray(0, -1)
  for (const harm of [flip(0), flip(0.3), flip(0.7), flip(1), cut, () => Buffer.alloc(0)]) {
    const path = testFolder(t)
    const bodies = await fill(t, node.url, path)
    const files = (await readdir(path, { recursive: true, withFileTypes: true })).filter(each =>
      each.isFile() && each.name !== 'lock' && each.name !== 'varve-cache'
    )
    for (const { parentPath, name } of files) {
      await writeFile(join(parentPath, name), harm(await readFile(join(parentPath, name))))
    }
    const varve = await startAt(t, node.url, path)
    for (const [at, target] of [modules, blockByVersion].entries()) {
      const got = await varve.get(target)
      t.match({ how: got.headers[cacheStatusHeader], body: got.body }, { how: /fwd=uri-miss/, body: bodies[at] })
    }
    await varve.stop({ drainMs: 0 })
  }
})

t.test('a damaged record of the chains is counted, logged and replaced', async t => {
  const [node, path] = [await startNode(t), t.testdir({ 'varve-cache': '', log: { spaces: 'damaged' } })]
  const varve = await startAt(t, node.url, path)
  await store(varve, [modules])
  t.equal(varve.log.filter(({ msg }) => /record of the chains .* is damaged/.test(String(msg))).length, 1)
  t.equal(await varve.metric('varve_corrupt_entries_total'), 1)
  await varve.stop({ drainMs: 0 })
  t.equal(await statusOf(await startAt(t, node.url, path), modules), diskHit)
})

t.test('a folder in use, or a folder not to be made, is one sentence and exit 1', async t => {
  const [node, path] = [await startNode(t), t.testdir({ file: 'x' })]
  await startAt(t, node.url, join(path, 'used'))
  for (
    const [folder, reason] of [
      [join(path, 'used'), /^another varve \(process \d+\) uses it: give each its own folder, or stop the other$/],
      [join(path, 'file', 'below'), /^ENOTDIR/],
      ['/proc/varve-cache', /^ENOENT/]
    ] as const
  ) {
    t.match(await refusal(t, node.url, folder), reason)
  }
})
