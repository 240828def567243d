import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rmdir, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setImmediate as pause } from 'node:timers/promises'
import t from 'tap'
import { DiskEvictor } from '../../src/cache/disk-evictor.js'
import { blockBytes } from '../../src/cache/disk-files.js'
import { openDiskTier } from '../support/disk-tier.js'
import { storedEntryOf } from '../support/redis-tier.js'

t.test('a file in place of a folder fails a counted write and leaves nothing behind', async t => {
  const folder = t.testdir()
  const disk = await openDiskTier(t, folder, 1_000_000)
  const path = disk.files.pathOf('space', 'a')
  await mkdir(join(folder, 'entries', 'space'), { recursive: true })
  await writeFile(join(path, '..', '..'), 'no folder')
  await t.rejects(disk.files.write('space', 'a', Buffer.from('x')), { code: 'ENOTDIR' })
  t.same(disk.counts.failed, ['write'])
  t.same(await readdir(join(folder, 'tmp')), [])
})

t.test('a folder in place of a file fails an append, without another attempt', async t => {
  const disk = await openDiskTier(t, t.testdir(), 1_000_000)
  await mkdir(disk.files.pathOf('space', 'a'), { recursive: true })
  await t.rejects(disk.files.append('space', 'a', Buffer.from('x')), { code: 'EISDIR' })
  t.same(disk.counts.failed, ['write'])
})

t.test('a write succeeds though its new folder is removed before it, as eviction does', async t => {
  const disk = await openDiskTier(t, t.testdir(), 1_000_000)
  let paths: readonly string[] = []
  const over = new AbortController()
  t.teardown(() => {
    over.abort()
  })
  const removing = (async () => {
    while (!over.signal.aborted) {
      for (const path of paths) await rmdir(dirname(path)).catch(() => {})
      await pause()
    }
  })()
  // Repeats until a folder was removed between its creation and its use.
  let most = 0
  for (let round = 0; round < 100 && most <= 2 * blockBytes; round++) {
    const names = Array.from({ length: 300 }, (_, at) => `${at}`)
    const space = `space-${round}`
    paths = names.map(name => disk.files.pathOf(space, name))
    const sizes = await Promise.all(names.map(async name => await disk.files.write(space, name, randomBytes(9))))
    most = Math.max(...sizes.map(({ bytes }) => bytes))
  }
  over.abort()
  await removing
  t.same(disk.counts.failed, [])
  t.ok(most > 2 * blockBytes, 'a folder was removed, and each new one is counted')
})

t.test('eviction compares many files, counts no index as an entry, and stops in time', async t => {
  const path = t.testdir()
  const counts = { evicted: 0 }
  const evictor = new DiskEvictor({
    path,
    maxBytes: 2_000_000,
    knownSize: undefined,
    evicted: () => {
      counts.evicted++
    },
    onError: () => {
      t.fail('nothing fails')
    }
  })
  t.same([evictor.size, evictor.has(1)], [undefined, false], 'nothing is known before the count')
  for (let at = 0; at < 600; at++) {
    const folder = join(path, 'entries', 'space', `${at % 2}`, `${at % 10}0`)
    await mkdir(folder, { recursive: true })
    const file = join(folder, `${`${at}`.padStart(37, '0')}${at % 2 === 0 ? '.index' : ''}`)
    await writeFile(file, 'x')
    await utimes(file, at, at)
  }
  await evictor.count()
  t.match(evictor.size, { entries: 300 })
  await evictor.waitUntilIdle()
  t.ok(evictor.bytes <= 1_900_000, `${evictor.bytes} bytes`)
  const left = (await readdir(join(path, 'entries'), { recursive: true })).filter(name => /\d\d\d$/.test(name))
  t.equal(300 - counts.evicted, evictor.entries)
  t.ok(left.length <= evictor.entries && counts.evicted > 20 && counts.evicted < 200, `${counts.evicted} entries`)
  evictor.add(2_000_000, 0)
  evictor.add(-2_200_000, 0)
  const { evicted } = counts
  await evictor.waitUntilIdle()
  t.equal(counts.evicted, evicted, 'an eviction that is no longer needed removes nothing')
  await evictor.close()
})

t.test('an entry that is stored again and again counts once', async t => {
  const disk = await openDiskTier(t, t.testdir(), 1_000_000)
  disk.tier.put({ stored: storedEntryOf('other', 'x'), ttlMs: undefined })
  for (let at = 0; at < 10; at++) {
    disk.tier.put({ stored: storedEntryOf('a', randomBytes(at % 2 === 0 ? 100 : 9000)), ttlMs: 60_000 })
    await disk.tier.waitUntilIdle()
  }
  t.equal(disk.evictor.entries, 2)
  const { bytes } = disk.evictor
  await disk.evictor.count()
  t.equal(disk.evictor.bytes, bytes)
})
