import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, open, readdir, readFile, rm, rmdir, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setImmediate as pause } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { getInTime, openDiskTier, type TestDiskTier } from '../support/disk-tier.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { until } from '../support/until.js'

const roomBytes = 50_000_000

async function opened (t: Test, ...entries: StoredEntry[]): Promise<TestDiskTier & { readonly path: string }> {
  const path = t.testdir()
  const disk = await openDiskTier(t, path, roomBytes)
  await put(disk, ...entries)
  return Object.assign(disk, { path })
}

async function put (disk: TestDiskTier, ...entries: StoredEntry[]): Promise<void> {
  for (const stored of entries) disk.tier.put({ stored, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  await disk.evictor.waitUntilIdle()
}

const byKey = (key: string): EntrySelector => ({
  by: 'key',
  keys: { value: key, text: key, intervalFamily: undefined }
})
const found = async (disk: TestDiskTier, key: string): Promise<string | undefined> =>
  (await getInTime(disk, byKey(key)))?.stored.body.toString()
/** Operations that failed, without reads that a busy machine was too slow for. */
const failures = ({ counts }: TestDiskTier): string[] => counts.failed.filter(operation => operation !== 'read')

/** Invalidates an entry by its key. */
const purge = async ({ tier }: TestDiskTier, key: string): Promise<boolean> =>
  await tier.invalidate({ keys: [key], intervals: [] })

t.test('a link or a folder in place of a file is a miss, a file of another release no damage', async t => {
  const body = randomBytes(300_000)
  const disk = await opened(t, storedEntryOf('large', body), ...['a', 'b', 'c'].map(key => storedEntryOf(key, 'x')))
  t.equal(await found(disk, 'large'), body.toString())
  const [a, b, c] = ['a', 'b', 'c'].map(key => disk.files.pathOf('space', key)) as [string, string, string]
  for (const file of [a, b]) await rm(file)
  await symlink('/dev/null', a)
  await mkdir(b)
  const other = Buffer.concat([Buffer.from('VRD'), Buffer.from([2]), Buffer.alloc(4), randomBytes(100)])
  other.writeUInt32BE(crc32(other.subarray(8), 2), 4)
  await writeFile(c, other)
  t.same(await Promise.all(['a', 'b', 'c'].map(async key => await found(disk, key))), [undefined, undefined, undefined])
  t.same([disk.counts.corrupt, failures(disk)], [2, ['remove']])
  await put(disk, storedEntryOf('c', 'y'))
  t.equal(await found(disk, 'c'), 'y')
})

t.test('what cannot be written fails at once, is counted and leaves nothing behind', async t => {
  const disk = await opened(t)
  await mkdir(disk.files.pathOf('space', 'a'), { recursive: true })
  await t.rejects(disk.files.append('space', 'a', Buffer.from('x')), { code: 'EISDIR' })
  await rm(join(disk.path, 'entries', 'space'), { recursive: true })
  await mkdir(join(disk.path, 'entries', 'space'))
  await writeFile(dirname(dirname(disk.files.pathOf('space', 'a'))), 'no folder')
  await t.rejects(disk.files.write('space', 'a', Buffer.from('x')), { code: 'ENOTDIR' })
  t.same(failures(disk), ['write', 'write'])
  t.same(await readdir(join(disk.path, 'tmp')), [])
})

t.test('a write succeeds though its new folder is removed before it, as eviction does', async t => {
  const disk = await opened(t)
  let paths: readonly string[] = []
  const over = new AbortController()
  const removing = (async () => {
    while (!over.signal.aborted) {
      for (const path of paths) await rmdir(dirname(path)).catch(() => {})
      await pause()
    }
  })()
  const twoFolders = 2 * 4096
  // Repeats until a folder was removed between its creation and its use.
  let most = 0
  for (let round = 0; round < 100 && most <= twoFolders; round++) {
    const names = Array.from({ length: 300 }, (_, at) => `${at}`)
    paths = names.map(name => disk.files.pathOf(`space-${round}`, name))
    const sizes = await Promise.all(
      names.map(async name => await disk.files.write(`space-${round}`, name, randomBytes(9)))
    )
    most = Math.max(...sizes.map(({ bytes }) => bytes))
  }
  over.abort()
  await removing
  t.same(failures(disk), [])
  t.ok(most > twoFolders, 'a folder was removed, and each new one is counted')
})

t.test('a clock that jumps expires what has a lifetime, and nothing else', async t => {
  const disk = await opened(t, storedEntryOf('history', 'x'))
  disk.tier.put({ stored: storedEntryOf('page', 'x'), ttlMs: 60_000 })
  await disk.tier.waitUntilIdle()
  for (const [clockMs, page] of [[0, 'x'], [-3_600_000, undefined], [3_600_000, undefined]] as const) {
    disk.clockMs = clockMs
    t.same([await found(disk, 'page'), await found(disk, 'history')], [page, 'x'])
  }
})

const family = '4.1 json blocks'
const blockOf = (height: number, first: bigint): StoredEntry =>
  storedEntryOf(`${family} ${height}`, `${height}`, { validity: { family, first, last: first } })

t.test('an index with too many records forgets the oldest, whose blocks are then misses', async t => {
  const disk = await opened(t, blockOf(1, 10n))
  const index = disk.files.pathOf('space', `index versions ${family} 0`)
  const oldest = await readFile(index)
  await put(disk, blockOf(2, 20n))
  const newer = (await readFile(index)).subarray(oldest.length)
  await writeFile(index, Buffer.concat([oldest, ...Array<Buffer>(2047).fill(newer)]))
  await put(disk, blockOf(3, 30n))
  t.ok((await readFile(index)).length < 1100 * oldest.length)
  const bodyAt = async (version: bigint): Promise<string | undefined> =>
    (await getInTime(disk, { by: 'version', family, version }))?.stored.body.toString()
  t.same([await bodyAt(10n), await bodyAt(20n), await bodyAt(30n)], [undefined, '2', '3'])
})

t.test('the least recently used entries leave, and the size on the disk stays within the room', async t => {
  const path = t.testdir()
  const disk = await openDiskTier(t, path, 6_000_000)
  const used = async (): Promise<unknown> => await Promise.all([found(disk, 'hot-0'), found(disk, 'hot-1')])
  await put(disk, storedEntryOf('hot-0', 'x'), storedEntryOf('hot-1', 'x'))
  await put(disk, ...Array.from({ length: 8 }, (_, at) => blockOf(at, BigInt(at * 5000))))
  for (let at = 0; at < 700; at += 20) {
    await put(disk, ...Array.from({ length: 20 }, (_, nth) => storedEntryOf(`cold-${at + nth}`, randomBytes(9000))))
    await used()
    const size = Number(execFileSync('du', ['-s', '-B1', join(path, 'entries')]).toString().split(/\s/)[0])
    if (size > 6_600_000) t.fail(`${size} bytes`)
  }
  t.ok(disk.counts.evicted > 100, `${JSON.stringify(disk.counts)}`)
  t.same(await used(), ['x', 'x'], 'what is used stays')
  const { bytes, entries } = disk.evictor
  await disk.evictor.count()
  t.ok(Math.abs(disk.evictor.entries - entries) <= 2, `${entries} entries were counted as ${disk.evictor.entries}`)
  t.ok(Math.abs(disk.evictor.bytes - bytes) < 1_200_000, `${bytes} bytes were counted as ${disk.evictor.bytes}`)
  disk.evictor.add(6_000_000, 0)
  disk.evictor.add(-6_600_000, 0)
  const { evicted } = disk.counts
  await disk.evictor.waitUntilIdle()
  t.equal(disk.counts.evicted, evicted, 'an eviction that is no longer needed removes nothing')
})

t.test('eviction goes by the time of use, also of files that an earlier process wrote', async t => {
  const path = t.testdir()
  const first = await openDiskTier(t, path, roomBytes)
  // A write that is queued for a second on a busy machine is dropped.
  for (let at = 0; at < 40; at++) await put(first, storedEntryOf(`${at}`, randomBytes(9000)))
  for (let at = 0; at < 20; at++) await utimes(first.files.pathOf('space', `${at}`), at, at)
  await first.tier.close()
  const disk = await openDiskTier(t, path, 600_000)
  await disk.evictor.waitUntilIdle()
  const left = await Promise.all(Array.from({ length: 40 }, async (_, at) => await found(disk, `${at}`) !== undefined))
  t.ok(left.slice(20).every(Boolean), 'the newer ones stay')
  t.ok(left.slice(0, 20).includes(false), 'older ones leave')
})

t.test('each entry counts once, and what is no entry or cannot be listed harms no count', async t => {
  const disk = await opened(t)
  for (let at = 0; at < 10; at++) {
    disk.tier.put({ stored: storedEntryOf('a', randomBytes(at % 2 === 0 ? 100 : 9000)), ttlMs: 60_000 })
    await disk.tier.waitUntilIdle()
  }
  const { bytes } = disk.evictor
  await disk.evictor.count()
  t.same([disk.evictor.entries, disk.evictor.bytes], [1, bytes])
  const [entries, space] = [join(disk.path, 'entries'), join(disk.path, 'entries', 'space')]
  await writeFile(join(entries, 'file'), 'no folder')
  for (const folder of ['f/ff/folder', 'e/ee']) await mkdir(join(space, folder), { recursive: true })
  await symlink('/nowhere', join(space, 'x'))
  await symlink('/nowhere', join(space, 'f', 'ff', 'gone'))
  await writeFile(join(space, 'f', 'ff', `${'0'.repeat(37)}.index`), 'x')
  await symlink('loop', join(space, 'f', 'ff', '1'.repeat(37)))
  await disk.evictor.count()
  t.same([disk.evictor.entries, failures(disk)], [1, []])
  t.notOk((await readdir(join(space, 'e'))).includes('ee'), 'empty: removed')
  await disk.evictor.close()
  await disk.evictor.count()
  t.equal(disk.evictor.entries, 1, 'a closed evictor counts no more')
  await rm(entries, { recursive: true })
  await writeFile(entries, 'no folder')
  await disk.evictor.count()
  t.same(failures(disk), ['scan'])
})

const skip = process.getuid?.() === 0 ? false : 'only root may mount a file system'

t.test('on a full or read-only file system it serves, says so, drops and resumes', { skip }, async t => {
  const path = await mkdtemp(join(tmpdir(), 'varve-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path])
  t.teardown(async () => {
    execFileSync('umount', ['-l', path])
    await rm(path, { recursive: true })
  })
  const disk = await openDiskTier(t, path, roomBytes)
  await put(disk, storedEntryOf('before', 'x'))
  await writeFile(join(path, 'other'), Buffer.alloc(2_000_000)).catch(() => {})
  disk.tier.put({ stored: storedEntryOf('during', randomBytes(50_000)), ttlMs: undefined })
  await until(() => disk.tier.warnings.length > 0, 'the tier warns')
  t.match(disk.tier.warnings, [/^disk rejects writes: ENOSPC/])
  t.same([await found(disk, 'before'), await found(disk, 'during')], ['x', undefined])
  await until(() => disk.counts.dropped > 0, 'the write is dropped after its time')
  await rm(join(path, 'other'))
  await until(async () => {
    disk.tier.put({ stored: storedEntryOf('after', 'y'), ttlMs: undefined })
    return await found(disk, 'after') === 'y'
  }, 'the tier stores again')
  t.same(disk.tier.warnings, [])
  await disk.tier.waitUntilIdle()
  t.same(await readdir(join(path, 'tmp')), [], 'no temporary file is left')
  execFileSync('mount', ['-o', 'remount,ro', path])
  t.equal(await found(disk, 'after'), 'y', 'a read-only file system is read')
  await t.rejects(purge(disk, 'before'), /EROFS/)
  t.equal(await found(disk, 'before'), undefined, 'a purge that is not durable hides the tier')
  t.ok(disk.tier.warnings.some(text => /purges could not be written/.test(text)))
  disk.evictor.add(roomBytes, 0)
  await disk.evictor.waitUntilIdle()
  t.ok(disk.counts.failed.includes('scan'), 'an eviction that fails is counted')
  disk.evictor.add(-roomBytes, 0)
  execFileSync('mount', ['-o', 'remount,rw', path])
  await disk.tier.resume()
  t.same([await found(disk, 'before'), await found(disk, 'after')], [undefined, 'y'])
})

t.test('nothing is read or written before the chain is proven, and a purge waits for it', async t => {
  const disk = await opened(t)
  disk.space = '2.1-aa'
  await put(disk, storedEntryOf('2.1 a', 'x'), storedEntryOf('2.1 b', 'x'))
  disk.space = undefined
  t.equal(await found(disk, '2.1 a'), undefined)
  await t.rejects(purge(disk, '2.1 a'), /not proven/)
  await t.rejects(disk.tier.resume(), /not proven/)
  disk.space = '2.1-aa'
  t.equal(await found(disk, '2.1 b'), undefined, 'the purge is not done yet')
  await disk.tier.resume()
  t.same([await found(disk, '2.1 a'), await found(disk, '2.1 b')], [undefined, 'x'])
  disk.space = undefined
  await t.rejects(purge(disk, '2.2 a'), /not proven/)
  disk.space = '2.1-aa'
  await disk.tier.resume()
  t.equal(disk.space, '2.1-aa-next', 'a purge of keys that the chain has no more purges everything')
})

t.test('clearing hides everything, and too many failed purges become one of everything', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  await disk.tier.clear()
  t.same([await found(disk, 'a'), disk.space], [undefined, 'space-next'])
  disk.space = undefined
  for (let at = 0; at < 256; at++) await purge(disk, 'a').catch(() => {})
  disk.space = 'space'
  await purge(disk, 'a')
  t.equal(disk.space, 'space-next')
})

t.test('what waits longer than a second or has no room is dropped and counted', async t => {
  const disk = await openDiskTier(t, t.testdir(), 100_000)
  await put(disk, storedEntryOf('large', randomBytes(200_000)))
  t.equal(disk.counts.dropped, 1)
  disk.space = undefined
  disk.tier.put({ stored: storedEntryOf('late', 'x'), ttlMs: undefined })
  await new Promise(resolve => setTimeout(resolve, 1100))
  disk.space = 'space'
  await disk.tier.resume()
  await disk.tier.waitUntilIdle()
  t.equal(disk.counts.dropped, 2)
  for (let at = 0; at < 2100; at++) disk.tier.put({ stored: storedEntryOf(`${at}`, 'x'), ttlMs: undefined })
  t.ok(disk.counts.dropped > 50, 'a full queue drops the oldest')
  disk.tier.dropPending()
  await disk.tier.waitUntilIdle()
})

t.test('a disk that hangs or has too many reads costs one time limit, then misses at once', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  const foundAtOnce = async (): Promise<unknown> => await disk.tier.get(byKey('a'))
  const isBack = async (): Promise<void> => {
    await until(async () => await found(disk, 'a') === 'x', 'the entry is read from disk again')
  }
  const all = await Promise.all(Array.from({ length: 700 }, foundAtOnce))
  t.ok(all.includes(undefined) && disk.counts.failed.includes('read'), 'reads beyond the limit are misses')
  await isBack()
  // Opening a pipe without a writer takes until there is one, and holds one of the four threads for files.
  const pipe = join(disk.path, 'pipe')
  execFileSync('mkfifo', [pipe])
  const pipes = Array.from({ length: 4 }, async () => await open(pipe, 'r'))
  t.equal(await foundAtOnce(), undefined)
  const began = performance.now()
  for (let times = 0; times < 20; times++) t.equal(await foundAtOnce(), undefined)
  // Twenty time limits would be 5 s.
  t.ok(performance.now() - began < 2000, 'no second time limit')
  t.match(disk.tier.status, { state: 'down' })
  t.match(disk.tier.warnings, [/reads time out/])
  execFileSync('sh', ['-c', `: > '${pipe}'`])
  for (const each of await Promise.all(pipes)) await each.close()
  await isBack()
  t.match(disk.tier.status, { state: 'up' })
})
