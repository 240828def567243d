import { randomBytes } from 'node:crypto'
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { checksumOf, decodeRecord, SegmentList } from '../../src/cache/disk-segment.js'
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
import { logWhereMeanwhile, openDiskTier, recordsIn, segmentsIn } from '../support/disk-tier.js'
import { space, storedEntryOf } from '../support/redis-tier.js'
import { testFolder } from '../support/test-folder.js'

const withChecksum = (bytes: Buffer): Buffer => {
  const content = bytes.subarray(0, -4)
  return Buffer.concat([content, checksumOf(content)])
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

t.test('a purge that comes before the index is read holds, and costs no other entry', async t => {
  const first = await opened(t, entryOf('a', 'x'), entryOf('b', 'x'))
  await first.tier.close()
  const disk = await openDiskTier(t, first.path, roomBytes, false)
  t.equal(await purge(disk, 'a'), true)
  await disk.tier.load()
  t.same([await found(disk, 'a'), await found(disk, 'b')], [undefined, 'x'])
})

t.test('a purge right behind the list that a process joins with holds', async t => {
  const { keeper, path, ...first } = await opened(t, entryOf('a', 'x'), entryOf('b', 'x'))
  const purging: Array<Promise<boolean>> = []
  const log = logWhereMeanwhile(keeper, async () => {
    purging.push(purge({ ...first, keeper }, 'a'))
    // Its message comes before the list is taken over.
    await new Promise(resolve => setImmediate(resolve))
  })
  const late = await openDiskTier(t, path, roomBytes, false, log)
  await late.tier.load()
  await Promise.all(purging)
  t.same([await found(late, 'a'), await found(late, 'b')], [undefined, 'x'])
})

t.test('a process that gets a damaged list of purges joins no log, and finds nothing', async t => {
  const { keeper, path } = await opened(t, entryOf('a', 'x'))
  const late = await openDiskTier(t, path, roomBytes, true, {
    writers: 1,
    keeper,
    keeperFor: member => ({
      ...keeper.for(member),
      joinLog: async () => ({ purges: Buffer.from('damaged'), segments: [1] })
    })
  })
  t.same([await found(late, 'a'), late.counts.failed], [undefined, ['scan']])
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

t.test('a purge that is acknowledged while varve stops holds after the restart', async t => {
  let acknowledged = 0
  for (let at = 0; at < 20; at++) {
    const disk = await opened(t, entryOf('a', 'x'), entryOf('b', randomBytes(100_000)))
    const purging = purge(disk, 'a').then(() => acknowledged++)
    for (let turn = 0; turn < at; turn++) await Promise.resolve()
    await Promise.all([purging, disk.tier.close()])
    const next = await openedAt(t, disk.path)
    t.equal(await found(next, 'a'), undefined, `after ${at} turns`)
    await next.tier.close()
  }
  t.equal(acknowledged, 20)
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

t.test('many large entries at once stay within a small room', async t => {
  const disk = await openedAt(t, testFolder(t), 1_100_000)
  for (let at = 0; at < 3; at++) {
    await put(disk, ...Array.from({ length: 64 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(100_000))))
    const bytes = segmentsIn(disk.path).reduce((sum, path) => sum + statSync(path).size, 0)
    t.ok(bytes <= 1_100_000, `${bytes} bytes`)
  }
  t.ok(await found(disk, '2-63') !== undefined)
})

t.test('entries of a space that is no longer used leave, although they were hit', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000)
  const other = { chainId: 4, name: '4.2' }
  const old = async (): Promise<boolean> => {
    disk.space = other
    const isFound = await disk.tier.get(other, '4.2 hot') !== undefined
    disk.space = space
    return isFound
  }
  disk.space = other
  disk.tier.put(other, { stored: storedEntryOf('4.2 hot', 'x'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  t.equal(await old(), true)
  const { indexBytes } = disk.tier
  for (let at = 0; at < 30; at++) {
    await put(disk, ...Array.from({ length: 5 }, (_, nth) => entryOf(`${nth}`, randomBytes(9000))))
  }
  t.equal(await old(), false)
  t.same([await found(disk, 'hot'), disk.counts.corrupt], [undefined, 0], 'nor is any copied into the other space')
  t.ok(disk.tier.indexBytes <= 6 * indexBytes, 'and take no memory')
})

t.test('a segment that is gone or damaged leaves in its turn, and gives its room', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000, entryOf('hot', 'x'))
  for (let at = 0; at < 40; at++) {
    if (at < 3) t.equal(await found(disk, 'hot'), 'x')
    await put(disk, ...Array.from({ length: 5 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(9000))))
    if (at === 3) rmSync(segmentsIn(disk.path)[1] ?? '')
    if (at === 4) writeFileSync(segmentsIn(disk.path)[0] ?? '', randomBytes(60_000))
  }
  t.ok((disk.tier.status.bytes ?? 0) < 1_000_000)
  t.ok(await found(disk, '39-4') !== undefined)
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
  // Without hits the copies leave, and with the last older entry the purges.
  for (let at = 0; at < 20; at++) await fill()
  await purge(disk, 'other')
  const { length } = readFileSync(join(disk.path, 'purges'))
  t.ok(length < 100, `a purge stays no longer than what is older: ${length} bytes`)
  t.equal(await found(disk, 'stays'), undefined)
})

t.test('records of two spaces and of many bytes wait together, and each is found in its space', async t => {
  const disk = await opened(t)
  const other = { chainId: 4, name: '4.2' }
  const large = randomBytes(3_000_000)
  for (let at = 0; at < 5; at++) disk.tier.put(space, { stored: entryOf(`${at}`, large), ttlMs: undefined })
  disk.space = other
  disk.tier.put(other, { stored: storedEntryOf('4.2 0', 'other'), ttlMs: undefined })
  await disk.tier.waitUntilIdle()
  t.equal((await disk.tier.get(other, '4.2 0'))?.stored.body.toString(), 'other')
  disk.space = space
  for (let at = 0; at < 5; at++) t.equal(await found(disk, `${at}`), large.toString())
})

t.test('a segment that is lost costs its own entries alone, and no purge', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000, entryOf('a', 'x'), entryOf('b', 'x'))
  await put(disk, ...Array.from({ length: 12 }, (_, at) => entryOf(`${at}`, randomBytes(9000))))
  await purge(disk, 'a')
  const lost = segmentsIn(disk.path).at(-1) ?? ''
  await put(disk, ...Array.from({ length: 12 }, (_, at) => entryOf(`later ${at}`, randomBytes(9000))))
  await disk.tier.close()
  rmSync(lost)
  const next = await openedAt(t, disk.path, 1_000_000)
  t.same([await found(next, 'a'), await found(next, 'b')], [undefined, 'x'])
  t.ok(await found(next, 'later 11'))
})

t.test('a lost or damaged list of purges costs all entries, and its numbers never come back', async t => {
  for (const harm of ['lose', 'damage', 'cut', 'replace']) {
    const disk = await openedAt(t, testFolder(t), 1_000_000, entryOf('a', 'x'), entryOf('b', 'x'))
    await purge(disk, 'a')
    await disk.tier.close()
    const path = join(disk.path, 'purges')
    const [bytes, old] = [readFileSync(path), crashed(t, disk.path)]
    if (harm === 'lose') rmSync(path)
    if (harm === 'damage') writeFileSync(path, bytes.fill(bytes.readUInt8(12) ^ 1, 12, 13))
    if (harm === 'cut') writeFileSync(path, bytes.subarray(0, 20))
    // One of another form has a right checksum too.
    if (harm === 'replace') writeFileSync(path, withChecksum(bytes.fill(9, 3, 4)))
    const next = await openedAt(t, disk.path, 1_000_000)
    t.same([await found(next, 'a'), await found(next, 'b'), next.counts.corrupt], [undefined, undefined, 1], harm)
    await put(next, entryOf('c', 'x'))
    await next.tier.close()
    for (const segment of segmentsIn(old)) cpSync(segment, join(disk.path, '00000099.segment'))
    const last = await openedAt(t, disk.path, 1_000_000)
    t.same([await found(last, 'a'), await found(last, 'b'), await found(last, 'c')], [undefined, undefined, 'x'])
    await last.tier.close()
  }
})

t.test('a number that the disk rejected lets no older entry through after a restart', async t => {
  const disk = await openedAt(t, testFolder(t), roomBytes, entryOf('a', 'x'))
  // A folder in its place makes every write of the list fail.
  mkdirSync(join(disk.path, 'purges.new'))
  for (let times = 0; times < 20; times++) await t.rejects(purge(disk, `${times}`), /EISDIR/)
  await put(disk, entryOf('stale', 'x'))
  const next = await openedAt(t, crashed(t, disk.path))
  rmSync(join(next.path, 'purges.new'), { recursive: true })
  await purge(next, 'stale')
  const last = await openedAt(t, crashed(t, next.path))
  t.same([await found(last, 'a'), await found(last, 'stale')], ['x', undefined])
  rmSync(join(disk.path, 'purges.new'), { recursive: true })
  await disk.tier.resume()
  t.same(disk.tier.warnings, [])
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
    return record === undefined ? [] : [{ ...record, ...place }]
  })
  for (const turn of [1, 2, 3]) {
    const list = new SegmentList()
    for (const [at, entry] of entries.entries()) {
      const { offset = 0, length = 0 } = entries[(at + turn) % entries.length] ?? {}
      list.add({ ...entry, offset, length, sequence: 2 ** 32 - 2, interval: undefined })
    }
    // Points behind the end, and claims more than any record has.
    if (turn === 3) list.add({ ...entries[0] as typeof entries[0] & object, offset: 2 ** 31, length: 2 ** 31 - 1 })
    const copy = crashed(t, disk.path)
    writeFileSync(join(copy, basename(path)), Buffer.concat([bytes.subarray(0, offset + length), list.encode()]))
    if (turn === 2) {
      // Has something else behind its intervals, with a right checksum.
      const whole = readFileSync(join(copy, basename(path)))
      const footer = Buffer.concat([whole.subarray(offset + length, -12), bytes.subarray(records[0]?.offset, offset)])
      const trailer = Buffer.from(whole.subarray(-12))
      trailer.writeUInt32BE(footer.length, 4)
      trailer.writeUInt32BE(crc32(footer), 8)
      writeFileSync(join(copy, basename(path)), Buffer.concat([whole.subarray(0, offset + length), footer, trailer]))
    }
    const next = await openedAt(t, copy)
    for (const key of ['a', 'b', 'purged']) {
      const body = await found(next, key)
      t.ok(body === undefined || (body === key && key !== 'purged'), `${turn}: ${key}`)
    }
    await next.tier.close()
  }
})

t.test('a footer that claims a longer record than there is has it neither served nor copied', async t => {
  const disk = await opened(t, entryOf('a', 'x'), entryOf('b', 'y'))
  await disk.tier.close()
  const [path = ''] = segmentsIn(disk.path)
  const bytes = readFileSync(path)
  const [first, second] = recordsIn(bytes)
  const record = decodeRecord(bytes.subarray(first?.offset))
  if (first === undefined || second === undefined || record === undefined) throw new Error('none')
  const list = new SegmentList()
  list.add({ ...record, offset: first.offset, length: first.length + 9 })
  writeFileSync(path, Buffer.concat([bytes.subarray(0, second.offset + second.length), list.encode()]))
  const next = await openedAt(t, disk.path)
  t.same([await found(next, 'a'), next.counts.corrupt], [undefined, 1])
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
  await Promise.all(Array.from({ length: 1000 }, async (_, at) => await purge(disk, `${at}`)))
  t.equal(await found(disk, 'b'), 'x')
  await purge(disk, 'a')
  t.equal(await found(disk, 'b'), undefined)
  await put(disk, entryOf('c', 'x'))
  await purge(disk, 'a')
  const next = await openedAt(t, crashed(t, disk.path))
  t.same([await found(disk, 'c'), await found(next, 'c')], ['x', 'x'], 'the next purge names its own entry again')
  t.equal(await found(next, 'b'), undefined)
})

t.test('what was fetched before the last thousand purges counts as purged', async t => {
  const disk = await opened(t)
  const fetchedAtMs = performance.now()
  await purge(disk, 'a')
  await Promise.all(Array.from({ length: 1000 }, async () => await purge(disk, 'again')))
  disk.tier.put(space, { stored: entryOf('a', 'stale'), ttlMs: undefined, fetchedAtMs })
  await put(disk, entryOf('b', 'x'))
  t.same([await found(disk, 'a'), await found(disk, 'b')], [undefined, 'x'])
})

t.test('a purge that cannot be passed on hides what it names, and is repeated until it can', async t => {
  const disk = await opened(t, entryOf('a', 'x'), entryOf('b', 'x'), blockOf(1, 10n, 19n), blockOf(2, 20n, 29n))
  await disk.tier.close()
  const { keeper } = disk
  const whole = keeper.for.bind(keeper)
  let failure: Promise<boolean> | undefined = Promise.reject(new Error('no response'))
  failure.catch(() => {})
  keeper.for = member => {
    const methods = whole(member)
    return { ...methods, purgeLog: async purge => await (failure ?? methods.purgeLog(purge)) }
  }
  const tier = await openDiskTier(t, disk.path, roomBytes, true, { writers: 1, keeper })
  await t.rejects(purge(tier, 'a'), /no response/)
  await t.rejects(tier.tier.drop(space, { keys: [], intervals: [{ family, first: 15n, last: 15n }] }), /no response/)
  t.same([await found(tier, 'a'), await found(tier, 'b')], [undefined, 'x'])
  t.same([await blockAt(tier, 15n), await blockAt(tier, 25n)], [undefined, '2'])
  t.match(tier.tier.warnings, [/^purges could not be written/])
  let fail = (): void => {}
  failure = new Promise((_resolve, reject) => {
    fail = () => {
      reject(new Error('no response'))
    }
  })
  const failing = purge(tier, 'a')
  await new Promise(resolve => setImmediate(resolve))
  failure = undefined
  await tier.tier.resume()
  t.same(tier.tier.warnings, [])
  fail()
  await t.rejects(failing, /no response/)
  t.match(tier.tier.warnings, [/^purges could not be written/], 'although another of the same was confirmed')
  await tier.tier.resume()
  t.same(tier.tier.warnings, [])
  const next = await openedAt(t, crashed(t, disk.path))
  t.same([await found(next, 'a'), await blockAt(next, 15n), await blockAt(next, 25n)], [undefined, undefined, '2'])
})

t.test('an entry that expires after its hit is not copied, and hits take half of a segment at most', async t => {
  const disk = await openedAt(t, testFolder(t), 1_000_000)
  disk.tier.put(space, { stored: entryOf('short', 'x'), ttlMs: 60_000 })
  // A segment has 62,500 bytes.
  const keys = Array.from({ length: 12 }, (_, at) => `${at}`)
  await put(disk, ...keys.map(key => entryOf(key, randomBytes(4000))), entryOf('long', 'x'))
  for (const key of [...keys, 'short', 'long']) t.ok(await found(disk, key) !== undefined)
  disk.clockMs = 120_000
  for (let at = 0; disk.counts.evicted === 0; at++) await put(disk, entryOf(`later ${at}`, randomBytes(20_000)))
  disk.clockMs = 0
  const stayed = []
  for (const key of keys) if (await found(disk, key) !== undefined) stayed.push(key)
  t.ok(stayed.length > 0 && stayed.length <= 7, `${stayed.length} of 12`)
  t.same([await found(disk, 'short'), await found(disk, 'long')], [undefined, 'x'])
})
