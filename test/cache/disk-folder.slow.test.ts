import { spawnSync } from 'node:child_process'
import { lstat, readdir, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { runCommand } from '../cli/command.js'
import {
  blockByVersion,
  degraded,
  diskHit,
  fill,
  modules,
  refusal,
  startAt,
  startNode,
  statusOf,
  store
} from '../support/disk-tier.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'
import { testFolder } from '../support/test-folder.js'

/** Lists the files of the entries and their indexes in a folder. */
async function filesIn (path: string): Promise<string[]> {
  const found = await readdir(join(path, 'entries'), { recursive: true })
  return found.filter(name => /[0-9a-f]{37}(?:\.index)?$/.test(name)).map(name => join(path, 'entries', name))
}

t.test('a folder of others, or a link in its own, is refused by serve and check, and loses nothing', async t => {
  const node = await startNode(t)
  const others = t.testdir({
    foreign: { tmp: { '7-1': 'x' } },
    linked: { 'varve-cache': '', tmp: t.fixture('symlink', '../foreign/tmp') },
    stray: { 'varve-cache': '', entries: { space: { a: { bc: t.fixture('symlink', '../../../../foreign/tmp') } } } }
  })
  for (
    const [name, reason] of [
      ['foreign', /it holds files that are not varve's, such as "tmp": give varve an empty folder or a new one$/],
      ['linked', /"tmp" in it is a symbolic link, and varve follows none in its folder: remove it$/],
      ['stray', /"entries\/space\/a\/bc" in it is a symbolic link/]
    ] as const
  ) {
    const folder = join(others, name)
    const sentence = await refusal(t, node.url, folder)
    t.match(sentence, reason)
    const config = join(others, `${name}.yaml`)
    await writeFile(config, `upstreams: [{ url: "${node.url}" }]\ncache: { disk: { path: "${folder}" } }`)
    const { code, out } = await runCommand(t, ['check', config, '--online', '--json'])
    t.equal(code, 1)
    t.match(JSON.parse(out), { online: [{}, { problems: [sentence] }] })
  }
  t.same(await readdir(join(others, 'foreign', 'tmp')), ['7-1'])
  t.same(await readdir(join(others, 'foreign')), ['tmp'])
})

t.test('a fresh volume and the folder of an earlier release are used, only own files removed', async t => {
  const node = await startNode(t)
  const folders = t.testdir({
    fresh: { 'lost+found': {} },
    earlier: { entries: {}, generations: {}, tmp: { '12-3': 'x', spaces: 'x', size: 'x', mine: 'x', dir: { a: '' } } },
    link: t.fixture('symlink', 'earlier')
  })
  for (const name of ['fresh', 'earlier', 'link']) {
    const varve = await startAt(t, node.url, join(folders, name))
    t.equal((await varve.get(modules)).status, 200)
    await varve.stop({ drainMs: 0 })
  }
  t.same(await readdir(join(folders, 'earlier', 'tmp')), ['dir', 'mine'])
  t.ok((await lstat(join(folders, 'fresh', 'lost+found'))).isDirectory())
})

t.test('a pipe, a link, a socket or a huge file among the records is a miss, and is replaced', async t => {
  const [node, path] = [await startNode(t), testFolder(t)]
  const targets = [blockByVersion, ...[1, 2, 3, 4, 5].map(limit => `${modules}&limit=${limit}`)]
  const bodies = await fill(t, node.url, path, targets)
  const files = await filesIn(path)
  t.equal(files.length, targets.length + 1)
  const kinds = ['mkfifo', 'ln -s ../../../../size', 'ln -s /dev/zero', 'truncate -s 1900M']
  const listen = 'require("net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))'
  let next = 0
  for (const file of files) {
    await rm(file)
    const kind = file.endsWith('.index') ? 0 : next++
    // A process that is killed leaves its socket; the path of one is short.
    const [command = '', ...args] = kinds[kind]?.split(' ') ?? [process.execPath, '-e', listen]
    spawnSync(command, [...args, basename(file)], { cwd: dirname(file) })
    t.notOk((await lstat(file)).isFile() && kind !== 3, `kind ${kind}`)
  }
  const varve = await startAt(t, node.url, path)
  await store(varve, targets)
  for (const [at, target] of targets.entries()) t.equal((await varve.get(target)).body, bodies[at])
  t.equal(await varve.metric('varve_disk_errors_total{operation="read"}'), 0, 'no read waited')
  await varve.stop({ drainMs: 0 })
  t.ok(process.resourceUsage().maxRSS < 1_000_000, 'kB: the huge file was not read')
  for (const file of files) t.ok((await lstat(file)).size < 1_000_000 && (await lstat(file)).isFile())
  const last = await startAt(t, node.url, path)
  for (const target of targets) t.equal(await statusOf(last, target), diskHit)
})

t.test('an entry that inflates beyond maxEntryMb is a miss, from the disk and from Redis', async t => {
  const [node, path, redis] = [await startNode(t), testFolder(t), await startRedis(t)]
  const large = '/v1/blocks/by_height/900?with_transactions=true'
  await fill(t, node.url, path, [large])
  const cache = { redis: { url: redis.url } }
  const writer = await varveAt(t, node.url, { cache })
  await until(async () => {
    await writer.get(large)
    return await writer.metric('varve_cache_writes_total{tier="redis"}') === 1
  }, 'the block is in Redis')
  for (const small of [{ disk: { path } }, cache]) {
    const reader = await varveAt(t, node.url, { cache: { ...small, maxEntryMb: 1 } })
    await until(async () => (await degraded(reader)).length === 0, 'nothing is degraded')
    t.match(await statusOf(reader, large), /fwd=uri-miss/)
    t.equal(await reader.metric('varve_corrupt_entries_total'), 0, 'it is no damage')
  }
})

t.test('a folder that is removed or emptied while varve runs is made again, and locked again', async t => {
  const [node, path] = [await startNode(t), join(testFolder(t), 'cache')]
  const isWhole = async (): Promise<boolean> => {
    const names = await readdir(path)
    return ['varve-cache', 'lock', 'tmp', 'entries', 'spaces'].every(name => names.includes(name))
  }
  for (const workers of [1, 2]) {
    const varve = await startAt(t, node.url, path, { workers })
    await store(varve, [modules])
    await rm(path, { recursive: true, maxRetries: 9 })
    await until(isWhole, 'the folder is there again')
    for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, maxRetries: 9 })
    await until(isWhole, 'its contents are there again')
    await store(varve, [blockByVersion])
    await rm(join(path, 'entries'), { recursive: true, maxRetries: 9 })
    await until(isWhole, 'a part of it is there again')
    await store(varve, [`${blockByVersion}?with_transactions=true`])
    t.ok(varve.log.some(({ msg }) => msg === 'cache.disk.path was removed: made again'))
    t.match(await refusal(t, node.url, path), /another varve \(process \d+\) uses it/)
    await varve.stop({ drainMs: 0 })
    const next = await startAt(t, node.url, path, { workers })
    t.equal(await statusOf(next, `${blockByVersion}?with_transactions=true`), diskHit)
    await next.stop({ drainMs: 0 })
    await rm(path, { recursive: true, maxRetries: 9 })
  }
})
