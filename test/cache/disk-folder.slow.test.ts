import { lstat, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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

t.test('a folder of others, or a link in its own, is refused by serve and check, and loses nothing', async t => {
  const node = await startNode(t)
  const others = t.testdir({
    foreign: { tmp: { '7-1': 'x' } },
    linked: { 'varve-cache': '', tmp: t.fixture('symlink', '../foreign/tmp') },
    stray: { 'varve-cache': '', 1: t.fixture('symlink', '../foreign') }
  })
  for (
    const [name, reason] of [
      ['foreign', /it holds files that are not varve's, such as "tmp": give varve an empty folder or a new one$/],
      ['linked', /"tmp" in it is a symbolic link, and varve follows none in its folder: remove it$/],
      ['stray', /"1" in it is a symbolic link/]
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
  const entries = { space: { a: { bc: { ['0'.repeat(37)]: 'x' } } } }
  const folders = t.testdir({
    fresh: { 'lost+found': {} },
    earliest: { entries: {}, generations: {} },
    earlier: {
      'varve-cache': '',
      size: 'x',
      spaces: 'x',
      1: { '00000001.segment': 'x', spaces: 'x', 'set-aside': { '00000001-unreadable-spaces': 'x' } },
      2: { 'mine.txt': 'x' },
      entries,
      tmp: { '12-3': 'x', spaces: 'x', size: 'x', mine: 'x', dir: { a: '' } }
    },
    link: t.fixture('symlink', 'earlier')
  })
  for (const [name, lines] of [['fresh', 0], ['earliest', 1], ['earlier', 1], ['link', 0]] as const) {
    const varve = await startAt(t, node.url, join(folders, name))
    // The link leads to a folder that has it.
    if (name === 'link') t.equal(await statusOf(varve, modules), diskHit)
    else await store(varve, [modules])
    t.equal(varve.log.filter(({ msg }) => /has entries of an earlier release: removed/.test(String(msg))).length, lines)
    await varve.stop({ drainMs: 0 })
    await until(async () => !(await readdir(join(folders, name))).includes('outdated'), 'the old form is gone')
  }
  t.same((await readdir(join(folders, 'earlier'))).sort(), ['2', 'log', 'tmp', 'varve-cache'])
  t.same(await readdir(join(folders, 'earlier', 'tmp')), ['dir', 'mine'])
  t.same(await readdir(join(folders, 'earlier', '2')), ['mine.txt'])
  t.ok((await lstat(join(folders, 'fresh', 'lost+found'))).isDirectory())
  for (const path of ['log', 'log/spaces', 'log/purges', 'log/00000001.segment']) {
    t.equal((await lstat(join(folders, 'fresh', path))).mode & 0o077, 0, `${path} is the user's alone`)
  }
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
    const reader = await varveAt(t, node.url, { cache: { ...small, maxEntryMb: 2 } })
    await until(async () => (await degraded(reader)).length === 0, 'nothing is degraded')
    t.match(await statusOf(reader, large), /fwd=uri-miss/)
    t.equal(await reader.metric('varve_corrupt_entries_total'), 0, 'it is no damage')
  }
})

t.test('a folder that is removed or emptied while varve runs is made again, and locked again', async t => {
  const [node, path] = [await startNode(t), join(testFolder(t), 'cache')]
  const isWhole = async (): Promise<boolean> => {
    const names = await readdir(path)
    if (!['varve-cache', 'lock', 'log'].every(name => names.includes(name))) return false
    const log = await readdir(join(path, 'log'))
    return ['spaces', 'purges'].every(name => log.includes(name))
  }
  for (const workers of [1, 2]) {
    const varve = await startAt(t, node.url, path, { workers })
    await store(varve, [modules])
    await rm(path, { recursive: true, maxRetries: 9 })
    await until(isWhole, 'the folder is there again')
    t.equal((await lstat(path)).mode & 0o777, 0o700, 'for its own user alone')
    for (const name of await readdir(path)) await rm(join(path, name), { recursive: true, maxRetries: 9 })
    await until(isWhole, 'its contents are there again')
    await store(varve, [blockByVersion])
    await rm(join(path, 'log'), { recursive: true, maxRetries: 9 })
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
