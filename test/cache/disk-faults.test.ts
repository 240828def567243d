import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { DiskIndex } from '../../src/cache/disk-index.js'
import { decodeRecord, SegmentList } from '../../src/cache/disk-segment.js'
import { type StoredEntry } from '../../src/cache/entry-codec.js'
import { getInTime, openDiskTier, recordsIn, segmentsIn, type TestDiskTier } from '../support/disk-tier.js'
import { space, storedEntryOf } from '../support/redis-tier.js'
import { testFolder } from '../support/test-folder.js'
import { until } from '../support/until.js'

const roomBytes = 50_000_000

interface Opened extends TestDiskTier {
  readonly path: string
}

async function opened (t: Test, ...entries: StoredEntry[]): Promise<Opened> {
  return await openedAt(t, testFolder(t), roomBytes, ...entries)
}

async function openedAt (t: Test, path: string, maxBytes = roomBytes, ...entries: StoredEntry[]): Promise<Opened> {
  const disk = await openDiskTier(t, path, maxBytes)
  await put(disk, ...entries)
  return Object.assign(disk, { path })
}

async function put (disk: TestDiskTier, ...entries: StoredEntry[]): Promise<void> {
  for (const stored of entries) disk.tier.put(space, { stored, ttlMs: undefined })
  await disk.tier.waitUntilIdle()
}

// Every key begins with the name of the space.
const entryOf: typeof storedEntryOf = (key, ...rest) => storedEntryOf(`${space.name} ${key}`, ...rest)
const found = async (disk: TestDiskTier, key: string): Promise<string | undefined> =>
  (await getInTime(disk, async () => await disk.tier.get(space, `${space.name} ${key}`)))?.stored.body.toString()
const family = `${space.name} json blocks`
const blockOf = (height: number, first: bigint, last = first): StoredEntry =>
  storedEntryOf(`${family} ${height}`, `${height}`, { validity: { family, first, last } })
const blockAt = async (disk: TestDiskTier, version: bigint): Promise<string | undefined> =>
  (await getInTime(disk, async () => await disk.tier.covering(space, family, version)))?.stored.body.toString()
const purge = async ({ tier }: TestDiskTier, key: string): Promise<boolean> =>
  await tier.drop(space, { keys: [`${space.name} ${key}`], intervals: [] })

/** Copies a folder as a process would find it that starts after a crash at this moment. */
function crashed (t: Test, path: string): string {
  const copy = testFolder(t)
  cpSync(path, copy, { recursive: true })
  return copy
}

t.test('an acknowledged purge holds after a restart, in every space and for every copy of an entry', async t => {
  const disk = await opened(t, entryOf('a', 'x'), entryOf('b', 'x'), blockOf(1, 10n, 19n))
  disk.space = { chainId: 4, name: '4.2' }
  disk.tier.put(disk.space, { stored: storedEntryOf('4.2 a', 'other'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  disk.space = space
  await purge(disk, 'a')
  await disk.tier.drop(space, { keys: [], intervals: [{ family, first: 15n, last: 15n }] })
  const next = await openedAt(t, crashed(t, disk.path))
  t.same([await found(next, 'a'), await found(next, 'b'), await blockAt(next, 15n)], [undefined, 'x', undefined])
  next.space = { chainId: 4, name: '4.2' }
  t.equal(await next.tier.get(next.space, '4.2 a'), undefined, 'the read is purged in the other space too')
  next.space = space
  await put(next, entryOf('a', 'new'), blockOf(2, 12n, 18n))
  await next.tier.close()
  const last = await openedAt(t, next.path)
  t.same([await found(last, 'a'), await blockAt(last, 15n)], ['new', '2'], 'what was fetched after it is served')
})

t.test('a purge that overtakes a write on its way covers it, also after a restart', async t => {
  const disk = await opened(t)
  for (let at = 0; at < 50; at++) {
    disk.tier.put(space, { stored: entryOf('a', randomBytes(20_000)), ttlMs: undefined })
    for (let turn = 0; turn < at % 7; turn++) await Promise.resolve()
    if (at % 3 === 0) await new Promise(resolve => setImmediate(resolve))
    await purge(disk, 'a')
    await disk.tier.waitUntilIdle()
    if (await found(disk, 'a') !== undefined) t.fail(`run ${at}`)
  }
  const next = await openedAt(t, crashed(t, disk.path))
  t.equal(await found(next, 'a'), undefined)
})

t.test('the oldest entries leave, those that were hit stay, and the files stay within the room', async t => {
  const disk = await openedAt(t, testFolder(t), 2_000_000)
  await put(disk, entryOf('hot', 'x'), entryOf('cold', 'x'), blockOf(1, 10n, 19n), blockOf(2, 20n, 29n))
  const used = async (): Promise<unknown> => [await found(disk, 'hot'), await blockAt(disk, 15n)]
  for (let at = 0; at < 60; at++) {
    await put(disk, ...Array.from({ length: 10 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(9000))))
    t.same(await used(), ['x', '1'], 'what is used stays')
    const bytes = segmentsIn(disk.path).reduce((sum, path) => sum + statSync(path).blocks * 512, 0)
    if (bytes > 2_000_000) t.fail(`${bytes} bytes`)
  }
  t.ok(disk.counts.evicted > 300, `${disk.counts.evicted} evicted`)
  t.same([await found(disk, 'cold'), await blockAt(disk, 25n)], [undefined, undefined])
  const { entries, bytes = 0 } = disk.tier.status
  t.ok(bytes <= 2_000_000)
  await disk.tier.close()
  const next = await openedAt(t, disk.path, 2_000_000)
  t.match(next.tier.status, { entries })
  t.same([await found(next, 'hot'), await blockAt(next, 15n)], ['x', '1'], 'and after a restart')
})

t.test('no purged entry comes back, although it was hit, copied, and its purge evicted first', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000)
  let next = 0
  const fill = async (): Promise<void> => {
    await put(disk, ...Array.from({ length: 10 }, () => entryOf(`${next++}`, randomBytes(9000))))
  }
  await put(disk, entryOf('stays', 'x'), entryOf('purged', 'old'), entryOf('late', 'old'))
  for (let at = 0; at < 30; at++) {
    // A hit has the entry copied forward again and again, with the sequence of its fetch.
    t.equal(await found(disk, 'stays'), 'x')
    if (at < 10) t.equal(await found(disk, 'purged'), 'old')
    if (at < 20) t.equal(await found(disk, 'late'), 'old')
    const filling = fill()
    // The copy races the purge.
    if (at === 10) await purge(disk, 'purged')
    if (at === 20) await purge(disk, 'late')
    await filling
    if (at >= 10) {
      const crash = await openedAt(t, crashed(t, disk.path), 1_000_000)
      t.same(
        [await found(crash, 'purged'), await found(crash, 'late'), await found(crash, 'stays')],
        [undefined, at < 20 ? 'old' : undefined, 'x'],
        `${at}`
      )
      await crash.tier.close()
    }
  }
  t.same([await found(disk, 'purged'), await found(disk, 'late')], [undefined, undefined])
})

t.test('the purges of a segment that is lost count as purges of everything before them', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000, entryOf('a', 'x'), entryOf('b', 'x'))
  await put(disk, ...Array.from({ length: 12 }, (_, at) => entryOf(`${at}`, randomBytes(9000))))
  await purge(disk, 'a')
  const lost = segmentsIn(disk.path).at(-1) ?? ''
  await put(disk, ...Array.from({ length: 12 }, (_, at) => entryOf(`later ${at}`, randomBytes(9000))))
  await disk.tier.close()
  rmSync(lost)
  const next = await openedAt(t, disk.path, 1_000_000)
  t.same([await found(next, 'a'), await found(next, 'b')], [undefined, undefined])
  t.ok(await found(next, 'later 11'))
})

t.test('a footer that lies about places, keys and sequences has nothing wrong served', async t => {
  const disk = await opened(t, entryOf('a', 'a'), entryOf('b', 'b'), entryOf('purged', 'x'))
  await purge(disk, 'purged')
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const bytes = readFileSync(path)
  const records = recordsIn(bytes)
  const { offset = 0, length = 0 } = records.at(-1) ?? {}
  const entries = records.flatMap(place => {
    const record = decodeRecord(bytes.subarray(place.offset))
    return record !== undefined && 'entry' in record ? [{ ...record.entry, ...place }] : []
  })
  for (const turn of [1, 2, 3]) {
    const list = new SegmentList()
    for (const [at, entry] of entries.entries()) {
      const { offset = 0, length = 0 } = entries[(at + turn) % entries.length] ?? {}
      list.add({ ...entry, offset, length, sequence: 9, interval: undefined })
    }
    // Points behind the end, and claims more than any record has.
    if (turn === 3) list.add({ ...entries[0] as typeof entries[0] & object, offset: 2 ** 31, length: 2 ** 31 - 1 })
    list.purges.push({
      sequence: 1,
      isOfAll: false,
      digests: entries.slice(2).map(({ digest }) => digest),
      intervals: []
    })
    const copy = testFolder(t)
    writeFileSync(join(copy, basename(path)), Buffer.concat([bytes.subarray(0, offset + length), list.encode()]))
    const next = await openedAt(t, copy)
    for (const key of ['a', 'b', 'purged']) {
      const body = await found(next, key)
      t.ok(body === undefined || (body === key && key !== 'purged'), `${turn}: ${key}`)
    }
    await next.tier.close()
  }
})

t.test('a log that is cut at any length serves a beginning of it, and goes on from there', async t => {
  const disk = await opened(t, entryOf('a', 'a'), blockOf(1, 10n, 19n), entryOf('b', 'b'))
  await purge(disk, 'a')
  await put(disk, entryOf('c', 'c'))
  const [path = ''] = segmentsIn(disk.path)
  const whole = statSync(path).size
  const records = recordsIn(readFileSync(path))
  await disk.tier.close()
  t.ok(statSync(path).size > whole, 'a footer was written')
  const isWhole = (nth: number, cut: number): boolean =>
    (records[nth]?.offset ?? 0) + (records[nth]?.length ?? 0) <= cut
  for (let cut = 0; cut <= statSync(path).size; cut += 7) {
    const copy = crashed(t, disk.path)
    truncateSync(join(copy, basename(path)), cut)
    const next = await openedAt(t, copy)
    t.same(
      [await found(next, 'a'), await blockAt(next, 15n), await found(next, 'b'), await found(next, 'c')],
      [
        isWhole(0, cut) && !isWhole(3, cut) ? 'a' : undefined,
        isWhole(1, cut) ? '1' : undefined,
        isWhole(2, cut) ? 'b' : undefined,
        isWhole(4, cut) ? 'c' : undefined
      ],
      `${cut} bytes`
    )
    await put(next, entryOf('d', 'd'))
    await next.tier.close()
    const last = await openedAt(t, copy)
    t.equal(await found(last, 'd'), 'd')
    await last.tier.close()
    rmSync(copy, { recursive: true })
  }
})

t.test('blocks of 4 KB that were never written, or are missing, cost their entries alone', async t => {
  const keys = Array.from({ length: 40 }, (_, at) => `${at}`)
  const disk = await opened(t, ...keys.map(key => entryOf(key, randomBytes(1000).toString('hex'))))
  const truth = await Promise.all(keys.map(async key => await found(disk, key)))
  await purge(disk, '0')
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const { size } = statSync(path)
  for (let at = 0; at < size; at += 4096) {
    for (const harm of ['zero', 'hole', 'end']) {
      const copy = crashed(t, disk.path)
      const file = await open(join(copy, basename(path)), 'r+')
      if (harm === 'zero') await file.write(Buffer.alloc(Math.min(4096, size - at)), 0, undefined, at)
      else await file.truncate(at)
      if (harm === 'hole') await file.truncate(size)
      await file.close()
      const next = await openedAt(t, copy)
      for (const [nth, key] of keys.entries()) {
        const body = await found(next, key)
        if (body !== undefined && body !== truth[nth]) t.fail(`${harm} ${at}: ${key}`)
      }
      await put(next, entryOf('after', 'x'))
      t.equal(await found(next, 'after'), 'x')
      await next.tier.close()
      rmSync(copy, { recursive: true })
    }
  }
})

t.test('a segment of another release is no damage, and what is no segment is left alone', async t => {
  const disk = await opened(t, entryOf('a', 'x'))
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const bytes = readFileSync(path)
  bytes.writeUInt8(2, 3)
  writeFileSync(path, bytes)
  writeFileSync(join(disk.path, 'notes.txt'), 'mine')
  const next = await openedAt(t, disk.path)
  t.same([await found(next, 'a'), next.counts.corrupt], [undefined, 0])
  t.notOk(existsSync(path), 'it is replaced')
  writeFileSync(path, Buffer.from('garbage'))
  await next.tier.close()
  t.equal((await openedAt(t, disk.path)).counts.corrupt, 1)
  t.ok(existsSync(join(disk.path, 'notes.txt')))
})

t.test('a pipe, a link or a huge file in place of a segment is no segment', async t => {
  const disk = await opened(t, entryOf('a', 'x'))
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  for (const command of [['mkfifo'], ['ln', '-s', '/dev/zero'], ['truncate', '-s', '1900M']]) {
    rmSync(path, { force: true })
    execFileSync(command[0] ?? '', [...command.slice(1), path])
    const next = await openedAt(t, disk.path)
    t.equal(await found(next, 'a'), undefined)
    next.tier.put(space, { stored: entryOf('b', 'x'), ttlMs: undefined })
    await next.tier.waitUntilIdle()
    await next.tier.close()
  }
  t.ok(process.resourceUsage().maxRSS < 1_000_000, 'kB: the huge file was not read')
})

t.test('a clock that jumps expires what has a lifetime, and nothing else', async t => {
  const disk = await opened(t, entryOf('history', 'x'))
  disk.tier.put(space, { stored: entryOf('page', 'x'), ttlMs: 60_000 })
  await disk.tier.waitUntilIdle()
  for (const [clockMs, page] of [[0, 'x'], [-3_600_000, undefined], [3_600_000, undefined]] as const) {
    disk.clockMs = clockMs
    t.same([await found(disk, 'page'), await found(disk, 'history')], [page, 'x'])
  }
})

const skip = process.getuid?.() === 0 ? false : 'only root may mount a file system'

t.test('on a full or read-only file system it serves, says so, drops and resumes', { skip }, async t => {
  const path = await mkdtemp(join(tmpdir(), 'varve-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path])
  t.teardown(async () => {
    execFileSync('umount', ['-l', path])
    await rm(path, { recursive: true })
  })
  const disk = await openedAt(t, path, roomBytes, entryOf('before', 'x'))
  await writeFile(join(path, 'other'), Buffer.alloc(2_000_000)).catch(() => {})
  disk.tier.put(space, { stored: entryOf('during', randomBytes(50_000)), ttlMs: undefined })
  await until(() => disk.tier.warnings.length > 0, 'the tier warns')
  t.match(disk.tier.warnings, [/^disk rejects writes: ENOSPC/])
  t.same([await found(disk, 'before'), await found(disk, 'during')], ['x', undefined])
  await until(() => disk.counts.dropped > 0, 'the write is dropped after its time')
  await rm(join(path, 'other'))
  await until(async () => {
    disk.tier.put(space, { stored: entryOf('after', 'y'), ttlMs: undefined })
    return await found(disk, 'after') === 'y'
  }, 'the tier stores again')
  t.same(disk.tier.warnings, [])
  await disk.tier.waitUntilIdle()
  await disk.tier.close()
  execFileSync('mount', ['-o', 'remount,ro', path])
  const next = await openedAt(t, path)
  t.equal(await found(next, 'after'), 'y', 'a read-only file system is read')
  await t.rejects(purge(next, 'before'), /EROFS/)
  t.equal(await found(next, 'before'), undefined, 'a purge takes effect here though it is not durable')
  t.equal(await found(next, 'after'), 'y')
  t.match(next.tier.warnings, [/purges could not be written/])
  execFileSync('mount', ['-o', 'remount,rw', path])
  await next.tier.resume()
  t.same(next.tier.warnings, [])
  const last = await openedAt(t, crashed(t, path))
  t.same([await found(last, 'before'), await found(last, 'after')], [undefined, 'y'])
})

t.test('nothing is read or written while the folder may be of another chain, and a purge holds', async t => {
  const disk = await opened(t, entryOf('a', 'x'), entryOf('b', 'x'))
  disk.space = undefined
  t.equal(await found(disk, 'a'), undefined)
  disk.tier.put(space, { stored: entryOf('c', 'x'), ttlMs: undefined })
  await disk.tier.drop({ chainId: 4, name: '4.9' }, { keys: ['4.9 a'], intervals: [] })
  disk.space = { ...space }
  t.equal(await disk.tier.get(space, `${space.name} b`), undefined, 'of another object, which is another chain')
  disk.space = space
  t.same([await found(disk, 'a'), await found(disk, 'b')], [undefined, 'x'], 'also named in another space')
})

t.test('clearing hides everything for good, and too many purges become one of everything', async t => {
  const disk = await opened(t, entryOf('a', 'x'))
  await disk.tier.clear(space)
  t.equal(await found(disk, 'a'), undefined)
  await put(disk, entryOf('b', 'x'))
  t.equal(await found(await openedAt(t, crashed(t, disk.path)), 'a'), undefined)
  await Promise.all(Array.from({ length: 999 }, async () => await purge(disk, 'a')))
  t.equal(await found(disk, 'b'), 'x')
  await purge(disk, 'a')
  t.equal(await found(disk, 'b'), undefined)
})

t.test('what waits longer than a second, has no room or no number is dropped', async t => {
  const disk = await openedAt(t, testFolder(t), 100_000)
  await put(disk, entryOf('large', randomBytes(200_000)))
  t.equal(disk.counts.dropped, 1)
  await put(disk, storedEntryOf(`${family} x`, 'x', { validity: { family, first: 1n, last: 1n } }))
  t.equal(disk.counts.written, 0)
  disk.space = undefined
  disk.tier.put(space, { stored: entryOf('late', 'x'), ttlMs: undefined })
  await new Promise(resolve => setTimeout(resolve, 1100))
  disk.space = space
  await disk.tier.resume()
  await disk.tier.waitUntilIdle()
  t.equal(disk.counts.dropped, 2)
  for (let at = 0; at < 2200; at++) disk.tier.put(space, { stored: entryOf(`${at}`, 'x'), ttlMs: undefined })
  t.ok(disk.counts.dropped > 50, 'a full queue drops the oldest')
  await disk.tier.waitUntilIdle()
})

t.test('a disk that hangs or has too many reads costs one time limit, then misses at once', async t => {
  const disk = await opened(t, entryOf('a', 'x'))
  const foundAtOnce = async (): Promise<unknown> => await disk.tier.get(space, `${space.name} a`)
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

t.test('an indexed entry takes at most 64 bytes, in any order, and finds what a map finds', async t => {
  const index = new DiskIndex(segment => segment > 1)
  const digestOf = (at: number): Buffer => {
    const digest = Buffer.alloc(16)
    digest.writeUInt32BE(crc32(String(at)))
    digest.writeUInt32LE(at, 4)
    // Many share the word that chooses a slot.
    digest.writeUInt32LE(crc32(`${at % 5000}`), 8)
    return digest
  }
  const count = 100_000
  for (let at = 0; at < count; at++) {
    const first = BigInt((at * 7919) % count) * 10n
    index.set(digestOf(at), { segment: 2 + at % 3, offset: at, length: 9 })
    index.addInterval('f', { first, last: first + 9n, number: BigInt(at) })
  }
  t.ok(index.bytes <= 64 * index.size + 100_000, `${index.bytes / index.size} bytes an entry`)
  for (let at = 0; at < count; at += 997) {
    t.match(index.get(digestOf(at)), { segment: 2 + at % 3, isHit: false })
    const first = BigInt((at * 7919) % count) * 10n
    t.match(index.covering('f', first + 5n), { number: BigInt(at) })
    index.deleteInterval('f', { first, last: first + 9n, number: BigInt(at) })
    t.equal(index.covering('f', first + 5n), undefined)
    t.equal(index.delete(digestOf(at)), true)
    t.equal(index.delete(digestOf(at)), false)
    t.equal(index.get(digestOf(at)), undefined)
  }
  t.equal(index.covering('f', 10_000_000n), undefined)
  t.equal(index.covering('other', 1n), undefined)
})
