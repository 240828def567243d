import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import t, { type Test } from 'tap'
import { intervalKeyOf } from '../../src/api/read.js'
import { addEntry, digestOfText, DiskIndex } from '../../src/cache/disk-index.js'
import { decodeRecord, encodeEntryRecord } from '../../src/cache/disk-segment.js'
import {
  blockAt,
  blockOf,
  crashed,
  entryOf,
  family,
  found,
  opened,
  openedAt,
  purge,
  put,
  roomBytes
} from '../support/disk-log.js'
import { openDiskTier, recordsIn, segmentsIn } from '../support/disk-tier.js'
import { space, storedEntryOf } from '../support/redis-tier.js'
import { testFolder } from '../support/test-folder.js'
import { until } from '../support/until.js'

t.test('a folder that cannot be listed, and a segment that is gone, are misses', async t => {
  const nowhere = await openDiskTier(t, join(testFolder(t), 'nowhere'), roomBytes, false)
  t.match(nowhere.tier.warnings, [/its index is being read/])
  t.equal(await found(nowhere, 'a'), undefined)
  await nowhere.tier.load()
  t.same([await found(nowhere, 'a'), nowhere.counts.failed, nowhere.tier.warnings], [undefined, ['scan'], []])
  const disk = await opened(t, entryOf('a', 'x'))
  for (const path of segmentsIn(disk.path)) rmSync(path)
  t.same([await found(disk, 'a'), disk.counts.failed], [undefined, []])
})

t.test('a segment that goes while the log is read costs its own entries alone', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000)
  // Six fill a segment.
  for (let at = 0; at < 18; at++) await put(disk, entryOf(`${at}`, randomBytes(9000)))
  await disk.tier.close()
  const [first = '', second = '', ...others] = segmentsIn(disk.path)
  t.equal(others.length, 1)
  writeFileSync(first, 'no segment')
  const next = await openDiskTier(t, disk.path, 1_000_000, false)
  rmSync(second)
  await next.tier.load()
  t.same([await found(next, '8'), next.counts], [undefined, { ...next.counts, corrupt: 1, failed: ['scan'] }])
  t.ok(await found(next, '17') !== undefined)
})

t.test('a killed process leaves entries that the next one finds without a footer', async t => {
  const disk = await opened(t)
  for (let at = 0; at < 700; at += 100) {
    await put(disk, ...Array.from({ length: 100 }, (_, nth) => entryOf(`${at + nth}`, 'x')))
  }
  const next = await openedAt(t, crashed(t, disk.path))
  for (let at = 0; at < 700; at++) if (await found(next, `${at}`) !== 'x') t.fail(`${at}`)
  t.equal(next.tier.status.entries, 700)
  t.ok(next.tier.indexBytes > 0)
})

t.test('a record with the right digest and another entry, or none, is a counted miss', async t => {
  const disk = await opened(t, entryOf('a', 'x'), entryOf('b', 'y'))
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const bytes = readFileSync(path)
  const [a, b] = recordsIn(bytes).map(({ offset }) => decodeRecord(bytes.subarray(offset)))
  if (a === undefined || b === undefined) throw new Error('no entries')
  const start = recordsIn(bytes)[0]?.offset
  for (const value of [b.value, Buffer.from('no entry')]) {
    writeFileSync(path, Buffer.concat([bytes.subarray(0, start), encodeEntryRecord({ ...a, value })]))
    const next = await openedAt(t, crashed(t, disk.path))
    t.same([await found(next, 'a'), next.counts.corrupt], [undefined, 1])
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
        undefined,
        isWhole(1, cut) ? '1' : undefined,
        isWhole(2, cut) ? 'b' : undefined,
        isWhole(3, cut) ? 'c' : undefined
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

t.test('damage at any byte of a segment, its footer too, costs misses and serves nothing wrong', async t => {
  const disk = await opened(t, entryOf('a', 'a'), blockOf(1, 10n, 19n), entryOf('purged', 'x'))
  await purge(disk, 'purged')
  await put(disk, entryOf('b', 'b'))
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const bytes = readFileSync(path)
  let hits = 0
  for (let at = 0; at < bytes.length; at += 3) {
    const copy = crashed(t, disk.path)
    const harmed = Buffer.from(bytes)
    harmed.writeUInt8(harmed.readUInt8(at) ^ 1 << at % 8, at)
    writeFileSync(join(copy, basename(path)), harmed)
    const next = await openedAt(t, copy)
    const bodies = [
      await found(next, 'a'),
      await blockAt(next, 15n),
      await found(next, 'b'),
      await found(next, 'purged')
    ]
    for (const [nth, body] of bodies.entries()) {
      if (body !== undefined && body !== ['a', '1', 'b'][nth]) t.fail(`byte ${at}: ${nth}`)
    }
    hits += bodies.filter(body => body !== undefined).length
    await next.tier.close()
    rmSync(copy, { recursive: true })
  }
  t.ok(hits > bytes.length / 3, `${hits} hits`)
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
  bytes.writeUInt8(255, 3)
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

/** Makes a file system of 1 MB. */
async function smallFileSystem (t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'varve-full-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path])
  t.teardown(async () => {
    execFileSync('umount', ['-l', path])
    await rm(path, { recursive: true })
  })
  return path
}

t.test('on a full file system a purge that is repeated takes no more files or descriptors', { skip }, async t => {
  const path = await smallFileSystem(t)
  await writeFile(join(path, 'other'), Buffer.alloc(2_000_000)).catch(() => {})
  const disk = await openedAt(t, path)
  await t.rejects(purge(disk, 'a'), /ENOSPC/)
  const descriptors = (): number => readdirSync('/proc/self/fd').length
  const before = descriptors()
  for (let times = 0; times < 20; times++) await t.rejects(disk.tier.resume(), /ENOSPC/)
  t.ok(descriptors() <= before, 'no descriptor more')
  t.ok(segmentsIn(path).length <= 1)
  await disk.tier.close()
  t.equal((await openedAt(t, crashed(t, path))).counts.corrupt, 0, 'an empty segment is no damage')
  await rm(join(path, 'other'))
  await disk.tier.resume()
  t.same(disk.tier.warnings, [])
})

t.test('on a full or read-only file system it serves, says so, drops and resumes', { skip }, async t => {
  const path = await smallFileSystem(t)
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
  writeFileSync(join(path, '00000000.segment'), 'garbage')
  execFileSync('mount', ['-o', 'remount,ro', path])
  const next = await openedAt(t, path)
  t.same(next.counts.failed, ['remove'])
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

t.test('a segment without a list leaves the index with its entries and their intervals', async t => {
  const index = new DiskIndex(() => true)
  for (const number of [1n, 2n]) {
    const digest = digestOfText(intervalKeyOf('f', number))
    const interval = { family: 'f', first: number * 10n, last: number * 10n + 9n, number }
    addEntry(index, { digest, interval, sequence: 0 }, { segment: Number(number), offset: 9, length: 9 })
  }
  await index.prune(1)
  t.equal(index.size, 1)
  t.same([index.covering('f', 15n)?.number, index.covering('f', 25n)?.number], [undefined, 2n])
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
  for (let at = 0n; at < 5000n; at++) index.addInterval('g', { first: at, last: at, number: at })
  for (let at = 0n; at < 5000n; at++) index.deleteInterval('g', { first: at, last: at, number: at })
  index.deleteInterval('g', { first: 1n, last: 1n, number: 1n })
  t.equal(index.covering('g', 2500n), undefined)
  t.equal(index.covering('other', 1n), undefined)
})
