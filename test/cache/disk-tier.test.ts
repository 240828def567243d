import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, open, readdir, readFile, rm, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { type EntrySelector } from '../../src/cache/tier.js'
import { type TestDiskTier, openDiskTier } from '../support/disk-tier.js'
import { storedEntryOf } from '../support/redis-tier.js'
import { until } from '../support/until.js'

const roomBytes = 50_000_000
const byKey = (value: string): EntrySelector => ({ by: 'key', keys: { value, text: value, intervalFamily: undefined } })
async function opened (t: Test, ...entries: StoredEntry[]): Promise<TestDiskTier & { readonly path: string }> {
  const path = t.testdir()
  const disk = await openDiskTier(t, path, roomBytes)
  for (const stored of entries) disk.tier.put({ stored, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  return Object.assign(disk, { path })
}

async function found ({ tier }: TestDiskTier, key: string): Promise<string | undefined> {
  return (await tier.get(byKey(key)))?.stored.body.toString()
}

t.test('every flipped bit, cut and garbage is a counted miss, and the entry can be stored again', async t => {
  const disk = await opened(t, storedEntryOf('a', 'content'.repeat(20)))
  const file = disk.files.pathOf('space', 'a')
  const intact = await readFile(file)
  const flipped = Array.from({ length: intact.length * 8 }, (_, at) => {
    const bytes = Buffer.from(intact)
    bytes[at >> 3] = (bytes[at >> 3] ?? 0) ^ (1 << (at & 7))
    return bytes
  })
  const cut = [0, 1, 7, 23, 24, 100, intact.length - 1].map(length => intact.subarray(0, length))
  const zeroed = [0, 64].map(at => Buffer.from(intact).fill(0, at, at + 32))
  const patterns = [...flipped, ...cut, ...zeroed, Buffer.concat([intact, Buffer.alloc(1)]), randomBytes(5000)]
  for (const [at, bytes] of patterns.entries()) {
    const counted = disk.counts.corrupt
    let failed = -1
    // A read that takes too long on a busy machine shows nothing.
    while (disk.counts.failed.length !== failed && disk.counts.corrupt === counted) {
      failed = disk.counts.failed.length
      await writeFile(file, bytes)
      if (await disk.tier.get(byKey('a')) !== undefined) t.fail(`pattern ${at} is served`)
    }
    if (disk.counts.corrupt !== counted + 1) t.fail(`pattern ${at} is not counted`)
  }
  t.equal(await stat(file).catch(() => undefined), undefined, 'the damaged file is gone')
  disk.tier.put({ stored: storedEntryOf('a', 'new'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  t.equal(await found(disk, 'a'), 'new')
})

t.test('a file of another key, as after damage of the file system, is a miss and counted', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'), storedEntryOf('b', 'y'))
  await writeFile(disk.files.pathOf('space', 'a'), await readFile(disk.files.pathOf('space', 'b')))
  t.equal(await found(disk, 'a'), undefined)
  t.equal(await found(disk, 'b'), 'y')
  t.equal(disk.counts.corrupt, 1)
})

t.test('an intact file of another form is a miss without being damage, and is replaced', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  const file = disk.files.pathOf('space', 'a')
  for (const form of [0, 2, 255]) {
    const { crc32 } = await import('node:zlib')
    const other = Buffer.concat([Buffer.from('VRD'), Buffer.from([form]), Buffer.alloc(4), randomBytes(100)])
    other.writeUInt32BE(crc32(other.subarray(8), form), 4)
    await writeFile(file, other)
    t.equal(await found(disk, 'a'), undefined)
  }
  t.equal(disk.counts.corrupt, 0)
  disk.tier.put({ stored: storedEntryOf('a', 'y'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  t.equal(await found(disk, 'a'), 'y')
})

t.test('a large entry is whole, and a symbolic link or a folder in its place is a miss', async t => {
  const body = randomBytes(300_000)
  const disk = await opened(t, storedEntryOf('large', body), storedEntryOf('a', 'x'), storedEntryOf('b', 'x'))
  t.ok((await disk.tier.get(byKey('large')))?.stored.body.equals(body))
  await rm(disk.files.pathOf('space', 'a'))
  await symlink('/dev/null', disk.files.pathOf('space', 'a'))
  t.equal(await found(disk, 'a'), undefined)
  await rm(disk.files.pathOf('space', 'b'))
  await mkdir(disk.files.pathOf('space', 'b'))
  t.equal(await found(disk, 'b'), undefined)
  t.same([disk.counts.corrupt, disk.counts.failed], [2, ['remove']])
})

t.test('a clock that went back expires what has a lifetime, and nothing else', async t => {
  const disk = await opened(t, storedEntryOf('history', 'x'))
  disk.tier.put({ stored: storedEntryOf('page', 'x'), ttlMs: 60_000 })
  await disk.tier.waitUntilIdle()
  t.ok(await found(disk, 'page'))
  disk.clockMs = -3_600_000
  t.equal(await found(disk, 'page'), undefined)
  t.ok(await found(disk, 'history'))
  disk.clockMs = 3_600_000
  t.equal(await found(disk, 'page'), undefined)
  t.ok(await found(disk, 'history'))
})

t.test('the least recently used entries leave, and the size on the disk stays within the room', async t => {
  const path = t.testdir()
  const disk = await openDiskTier(t, path, 2_000_000)
  const read = async (): Promise<number> =>
    (await Promise.all(['hot-0', 'hot-1'].map(async key => await found(disk, key))))
      .filter(body => body !== undefined).length
  for (const key of ['hot-0', 'hot-1']) disk.tier.put({ stored: storedEntryOf(key, 'x'), ttlMs: undefined })
  for (let at = 0; at < 600; at++) {
    disk.tier.put({ stored: storedEntryOf(`cold-${at}`, randomBytes(9000)), ttlMs: undefined })
    if (at % 20 !== 19) continue
    await disk.tier.waitUntilIdle()
    await disk.evictor.waitUntilIdle()
    await read()
    const used = Number(execFileSync('du', ['-s', '-B1', join(path, 'entries')]).toString().split(/\s/)[0])
    if (used > 2_200_000) t.fail(`${used} bytes`)
  }
  t.ok(disk.counts.evicted > 100, `${JSON.stringify(disk.counts)}`)
  t.equal(await read(), 2, 'what is used stays')
  const { bytes, entries } = disk.evictor
  await disk.evictor.count()
  t.ok(Math.abs(disk.evictor.entries - entries) <= 2, `${entries} entries were counted as ${disk.evictor.entries}`)
  t.ok(Math.abs(disk.evictor.bytes - bytes) < 400_000, `${bytes} bytes were counted as ${disk.evictor.bytes}`)
})

t.test('eviction goes by the time of use, also of files that an earlier process wrote', async t => {
  const path = t.testdir()
  const first = await openDiskTier(t, path, roomBytes)
  for (let at = 0; at < 40; at++) {
    first.tier.put({ stored: storedEntryOf(`${at}`, randomBytes(9000)), ttlMs: undefined })
    // A write that is queued for a second on a busy machine is dropped.
    await first.tier.waitUntilIdle()
  }
  for (let at = 0; at < 20; at++) await utimes(first.files.pathOf('space', `${at}`), at, at)
  await first.tier.close()
  const disk = await openDiskTier(t, path, 600_000)
  await disk.evictor.waitUntilIdle()
  const left = (await Promise.all(Array.from({ length: 40 }, async (_, at) => await found(disk, `${at}`)))).map(body =>
    body !== undefined
  )
  t.ok(left.slice(20).every(Boolean), 'the newer ones stay')
  t.ok(left.slice(0, 20).includes(false), 'older ones leave')
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
  disk.tier.put({ stored: storedEntryOf('before', 'x'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  await writeFile(join(path, 'other'), Buffer.alloc(2_000_000)).catch(() => {})
  disk.tier.put({ stored: storedEntryOf('during', randomBytes(50_000)), ttlMs: undefined })
  await until(() => disk.tier.warnings.length > 0, 'the tier warns')
  t.match(disk.tier.warnings, [/^disk rejects writes: ENOSPC/])
  t.equal(await found(disk, 'before'), 'x')
  t.equal(await found(disk, 'during'), undefined)
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
  await t.rejects(disk.tier.invalidate({ keys: ['before'], intervals: [] }), /EROFS/)
  t.equal(await found(disk, 'before'), undefined, 'a purge that is not durable hides the tier')
  t.ok(disk.tier.warnings.some(text => /purges could not be written/.test(text)))
  disk.evictor.add(roomBytes, 0)
  await disk.evictor.waitUntilIdle()
  t.ok(disk.counts.failed.includes('scan'), 'an eviction that fails is counted')
  disk.evictor.add(-roomBytes, 0)
  execFileSync('mount', ['-o', 'remount,rw', path])
  await disk.tier.resume()
  t.equal(await found(disk, 'before'), undefined)
  t.equal(await found(disk, 'after'), 'y')
})

t.test('nothing is read or written before the chain is proven, and a purge waits for it', async t => {
  const disk = await openDiskTier(t, t.testdir(), roomBytes)
  disk.space = '2.1-aa'
  for (const key of ['2.1 a', '2.1 b']) disk.tier.put({ stored: storedEntryOf(key, 'x'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  disk.space = undefined
  t.equal(await found(disk, '2.1 a'), undefined)
  await t.rejects(disk.tier.invalidate({ keys: ['2.1 a'], intervals: [] }), /not proven/)
  await t.rejects(disk.tier.resume(), /not proven/)
  disk.space = '2.1-aa'
  t.equal(await found(disk, '2.1 b'), undefined, 'the purge is not done yet')
  await disk.tier.resume()
  t.same([await found(disk, '2.1 a'), await found(disk, '2.1 b')], [undefined, 'x'])
})

t.test('a purge before the chain is proven empties the tier if another generation is proven', async t => {
  const disk = await openDiskTier(t, t.testdir(), roomBytes)
  disk.space = undefined
  await t.rejects(disk.tier.invalidate({ keys: ['2.2 a'], intervals: [] }), /not proven/)
  disk.space = '2.1-aa'
  await disk.tier.resume()
  t.equal(disk.space, '2.1-aa-next')
})

t.test('clearing hides everything, and too many failed purges become one of everything', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  await disk.tier.clear()
  t.equal(await found(disk, 'a'), undefined)
  t.equal(disk.space, 'space-next')
  disk.space = undefined
  for (let at = 0; at < 256; at++) await disk.tier.invalidate({ keys: ['a'], intervals: [] }).catch(() => {})
  disk.space = 'space'
  await disk.tier.invalidate({ keys: ['a'], intervals: [] })
  t.equal(disk.space, 'space-next')
})

t.test('what waits longer than a second or has no room is dropped and counted', async t => {
  const disk = await openDiskTier(t, t.testdir(), 100_000)
  disk.tier.put({ stored: storedEntryOf('large', randomBytes(200_000)), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
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

t.test('a disk that hangs costs one time limit, then misses at once until it responds', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  // Opening a pipe without a writer takes until there is one, and holds one of the four threads for files.
  const pipe = join(disk.path, 'pipe')
  execFileSync('mkfifo', [pipe])
  const pipes = Array.from({ length: 4 }, async () => await open(pipe, 'r'))
  t.equal(await found(disk, 'a'), undefined)
  const began = performance.now()
  t.equal(await found(disk, 'a'), undefined)
  t.ok(performance.now() - began < 200, 'no second time limit')
  t.match(disk.tier.status, { state: 'down' })
  t.match(disk.tier.warnings, [/reads time out/])
  execFileSync('sh', ['-c', `: > '${pipe}'`])
  for (const each of await Promise.all(pipes)) await each.close()
  await until(async () => await found(disk, 'a') === 'x', 'the entry is read from disk again')
  t.match(disk.tier.status, { state: 'up' })
})

t.test('more reads than the disk takes at once wait, and those beyond a limit are misses', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  const all = await Promise.all(Array.from({ length: 700 }, async () => await found(disk, 'a')))
  const hits = all.filter(body => body === 'x').length
  t.ok(hits < 700, `${hits} hits`)
  t.ok(disk.counts.failed.includes('read'))
  await until(async () => await found(disk, 'a') === 'x', 'the entry is read from disk again')
})

t.test('a folder that cannot be listed is counted, and the rest is evicted', async t => {
  const disk = await opened(t, storedEntryOf('a', 'x'))
  await writeFile(join(disk.path, 'entries', 'file'), 'no folder')
  await symlink('/nowhere', join(disk.path, 'entries', 'space', 'x'))
  await mkdir(join(disk.path, 'entries', 'space', 'f', 'ff', 'folder'), { recursive: true })
  await mkdir(join(disk.path, 'entries', 'space', 'e', 'ee'), { recursive: true })
  await symlink('/nowhere', join(disk.path, 'entries', 'space', 'f', 'ff', 'gone'))
  await symlink('loop', join(disk.path, 'entries', 'space', 'f', 'ff', 'loop'))
  await disk.evictor.count()
  t.equal(disk.evictor.entries, 1)
  t.same(disk.counts.failed, [])
  t.equal(
    await stat(join(disk.path, 'entries', 'space', 'e', 'ee')).catch(() => undefined),
    undefined,
    'empty: removed'
  )
  await disk.evictor.close()
  await disk.evictor.count()
  t.equal(disk.evictor.entries, 1, 'a closed evictor counts no more')
  await rm(join(disk.path, 'entries'), { recursive: true })
  await writeFile(join(disk.path, 'entries'), 'no folder')
  await disk.evictor.count()
  t.same(disk.counts.failed, ['scan'])
})
