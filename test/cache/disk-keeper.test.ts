import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DiskFiles } from '../../src/cache/disk-files.js'
import { DiskKeeper, type LogMember } from '../../src/cache/disk-keeper.js'
import { SegmentList } from '../../src/cache/disk-segment.js'
import { blockAt, blockOf, crashed, entryOf, found, type Opened, openedAt, purge, put } from '../support/disk-log.js'
import { logWhereMeanwhile, openDiskTier, segmentsIn } from '../support/disk-tier.js'
import { space } from '../support/redis-tier.js'
import { testFolder } from '../support/test-folder.js'
import { until } from '../support/until.js'

const room = 2_000_000

/** Opens two tiers on one log, as two workers would. */
async function two (t: Test, path = testFolder(t)): Promise<[Opened, Opened]> {
  const one = await openDiskTier(t, path, room, true, { writers: 2 })
  const other = await openDiskTier(t, path, room, true, { writers: 2, keeper: one.keeper })
  return [Object.assign(one, { path }), Object.assign(other, { path })]
}

/** Returns a process that has nothing. */
const memberWith = (evict: LogMember['evict'] = async () => new Uint32Array()): LogMember => ({
  applyPurge: () => false,
  learn: () => {
    throw new Error('gone')
  },
  evict,
  resetLog: async () => {}
})

/** Fills a log and closes it; returns its folder. */
async function filled (t: Test): Promise<string> {
  const disk = await openedAt(t, testFolder(t), room)
  for (let at = 0; at < 30; at++) {
    await put(disk, ...Array.from({ length: 10 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(9000))))
  }
  await disk.tier.close()
  return disk.path
}

const bytesIn = (path: string): number =>
  segmentsIn(path).reduce((sum, each) => sum + (statSync(each, { throwIfNoEntry: false })?.size ?? 0), 0)

const learned = async (disk: Opened, key: string): Promise<void> => {
  await until(async () => await found(disk, key) !== undefined, `${key} is known`)
}

t.test('what one process appends every other finds, and a later one, without the first one', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'), blockOf(1, 10n, 19n))
  await put(other, entryOf('b', 'y'))
  await learned(other, 'a')
  await learned(one, 'b')
  t.equal(await blockAt(other, 15n), '1')
  t.equal(segmentsIn(one.path).length, 2, 'each has a segment of its own')
  const next = await openedAt(t, crashed(t, one.path), room)
  t.same([await found(next, 'a'), await found(next, 'b'), await blockAt(next, 15n)], ['x', 'y', '1'])
})

t.test('a purge of one covers what another wrote, writes and fetched before, and nothing later', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'), blockOf(1, 10n, 19n))
  await learned(other, 'a')
  const fetchedAtMs = performance.now()
  t.equal(await purge(other, 'a'), true)
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  // Its fetch began before the purge and ends after it.
  one.tier.put(space, { stored: entryOf('a', 'stale'), ttlMs: undefined, fetchedAtMs })
  await one.tier.waitUntilIdle()
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  await put(one, entryOf('a', 'new'))
  await learned(other, 'a')
  const next = await openedAt(t, crashed(t, one.path), room)
  t.same([await found(next, 'a'), await blockAt(next, 12n)], ['new', '1'])
  await Promise.all([one, other].map(async ({ tier }) => {
    await tier.clear(space)
  }))
  t.same([await found(one, 'a'), await blockAt(other, 15n)], [undefined, undefined])
})

t.test('a purge that another process has confirmed under its id covers nothing fetched since', async t => {
  const [one, other] = await two(t)
  const purgeAs = async ({ tier }: Opened, id?: string): Promise<boolean> =>
    await tier.drop(space, { keys: [entryOf('a', 'x').key], intervals: [] }, id)
  const fresh = async (): Promise<void> => {
    await put(one, entryOf('a', 'new'))
    await learned(other, 'a')
  }
  await put(one, entryOf('a', 'old'))
  await learned(other, 'a')
  t.equal(await purgeAs(other, 'first'), true)
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  await fresh()
  t.equal(await purgeAs(one, 'first'), false)
  t.same([await found(one, 'a'), await found(other, 'a')], ['new', 'new'])
  await one.tier.clear(space, 'all')
  t.equal(await found(other, 'a'), undefined)
  await fresh()
  await other.tier.clear(space, 'all')
  t.equal(await found(one, 'a'), 'new')
  for (const id of ['second', undefined]) {
    await fresh()
    t.equal(await purgeAs(one, id), true)
  }
})

t.test('what any process has hit stays, the files stay within the room, and all agree', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('hot', 'x'), entryOf('cold', 'x'), blockOf(1, 10n, 19n))
  await learned(other, 'hot')
  for (let at = 0; at < 40; at++) {
    for (const disk of [one, other]) {
      await put(disk, ...Array.from({ length: 5 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(9000))))
    }
    await until(async () => await found(other, 'hot') === 'x' && await blockAt(other, 15n) === '1', 'copies arrive')
    const bytes = bytesIn(one.path)
    if (bytes > room) t.fail(`${bytes} bytes`)
  }
  t.same([await found(one, 'hot'), await found(one, 'cold'), await found(other, 'cold')], ['x', undefined, undefined])
  t.same([one.counts.corrupt, other.counts.corrupt], [0, 0])
})

t.test('many restarts of a full log lose little', async t => {
  const path = await filled(t)
  const first = await openedAt(t, path, room)
  const { entries: before = 0 } = first.tier.status
  await first.tier.close()
  for (let times = 0; times < 20; times++) {
    const disk = await openedAt(t, path, room, entryOf(`restart ${times}`, 'x'))
    await disk.tier.close()
    await disk.keeper.close()
  }
  const last = await openedAt(t, path, room)
  t.ok((last.tier.status.entries ?? 0) > 0.9 * before, `${last.tier.status.entries} of ${before}`)
  for (let times = 0; times < 20; times++) t.equal(await found(last, `restart ${times}`), 'x')
})

t.test('a segment that is gone when a process evicts it leaves nothing in its index', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'), blockOf(1, 10n, 19n))
  await put(other, entryOf('b', 'y'), blockOf(2, 20n, 29n))
  await learned(other, 'a')
  await until(async () => await blockAt(other, 15n) === '1', 'the block is known')
  const [first = ''] = segmentsIn(one.path)
  rmSync(first)
  await other.tier.evict(1, 0, false)
  t.match(other.tier.status, { entries: 2 })
  t.same([await found(other, 'b'), await blockAt(other, 25n), await blockAt(other, 15n)], ['y', '2', undefined])
})

t.test('a segment that is evicted while a process reads the log leaves nothing in its index', async t => {
  const disk = await openedAt(t, testFolder(t), room, entryOf('a', 'x'), blockOf(1, 10n, 19n))
  const { keeper, path } = disk
  const evictions: Array<Promise<unknown>> = []
  const log = logWhereMeanwhile(keeper, async member => {
    evictions.push(member.evict(1, 0, false))
  })
  const late = await openDiskTier(t, path, room, false, log)
  await late.tier.load()
  await Promise.all(evictions)
  t.match(late.tier.status, { entries: 0, bytes: 0 })
  t.match(disk.tier.status, { entries: 2 })
})

t.test('a process that does not respond holds an eviction up once, and one that is gone not at all', async t => {
  const [one] = await two(t)
  let evictions = 0
  const silent = memberWith(async () => {
    evictions++
    return await new Promise<Uint32Array>(() => {})
  })
  const keeper = one.keeper.for(silent)
  await keeper.joinLog()
  const { number } = await keeper.beginSegment({ space, bytes: 1, mustEvict: false })
  const began = performance.now()
  for (let at = 0; at < 40; at++) {
    await put(one, ...Array.from({ length: 7 }, (_, nth) => entryOf(`${at}-${nth}`, randomBytes(9000))))
  }
  t.ok(evictions > 10, `${evictions} evictions`)
  t.ok(performance.now() - began < evictions * 400, 'it is awaited once')
  await one.keeper.leave(silent)
  await t.rejects(keeper.beginSegment({ space, bytes: 1, mustEvict: false }), /has left the log/)
  await t.rejects(keeper.joinLog(), /has left the log/)
  t.notOk(segmentsIn(one.path).some(path => path.endsWith(`0${number}.segment`)))
})

t.test('what a process evicts that dies or gives up leaves, so a smaller room is kept', async t => {
  for (const how of ['dies', 'gives up']) {
    const path = await filled(t)
    const { keeper } = await openDiskTier(t, path, room / 2, true, { writers: 2 })
    let leaving: Promise<void> | undefined
    let evictions = 0
    const member = memberWith(async () => {
      evictions++
      if (how === 'dies') leaving ??= keeper.leave(member)
      return new Uint32Array()
    })
    const methods = keeper.for(member)
    await methods.joinLog()
    // Its process never gets the response.
    const { evicted } = await methods.beginSegment({ space, bytes: 1, mustEvict: false })
    t.ok(evicted.length > 1, `${evicted.length} segments`)
    t.equal(evictions, how === 'dies' ? 1 : evicted.length)
    await (leaving ?? methods.beginSegment({ space, bytes: 1, mustEvict: false }))
    t.ok(bytesIn(path) <= room / 2, `${how}: ${bytesIn(path)} bytes`)
  }
})

t.test('a segment begins when the room of those that were evicted before is given, and no later', async t => {
  const { keeper } = await openDiskTier(t, await filled(t), room, true, { writers: 2 })
  const began: string[] = []
  const begin = async (name: string): Promise<() => Promise<void>> => {
    const methods = keeper.for(memberWith(async (_number, _obsolete, isOwn) => {
      if (isOwn) began.push(name)
      return new Uint32Array()
    }))
    await methods.joinLog()
    const { evicted } = await methods.beginSegment({ space, bytes: 1, mustEvict: true })
    return async () => {
      await methods.endEviction(evicted.map(({ number }) => number), 0)
    }
  }
  const startMs = performance.now()
  const [first, second, third] = [begin('first'), begin('second'), begin('third')]
  const endFirst = await first
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
  t.same([...new Set(began)], ['first'])
  await endFirst()
  await (await second)()
  await (await third)()
  t.same([...new Set(began)], ['first', 'second', 'third'])
  t.ok(performance.now() - startMs < 900, 'no wait runs into its limit')
})

t.test('a segment that was damaged or replaced before it is continued costs one write, not all', async t => {
  const foreign = await openedAt(t, testFolder(t), room, entryOf('c', 'x'))
  await foreign.tier.close()
  for (const bytes of [Buffer.from('no segment'), readFileSync(segmentsIn(foreign.path)[0] ?? '')]) {
    const disk = await openedAt(t, testFolder(t), room, entryOf('a', 'x'))
    await disk.tier.close()
    const next = await openedAt(t, disk.path, room)
    writeFileSync(segmentsIn(disk.path)[0] ?? '', bytes)
    await put(next, entryOf('a', 'x'))
    await until(async () => {
      await put(next, entryOf('b', 'x'))
      return await found(next, 'b') === 'x'
    }, 'it is written to another segment')
    t.equal(await found(next, 'c'), undefined)
  }
})

t.test('a folder that is removed begins again in every process, and an old purge still holds', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'))
  await learned(other, 'a')
  await purge(one, 'b')
  rmSync(one.path, { recursive: true })
  t.equal(await one.keeper.restore(), true)
  t.equal(await one.keeper.restore(), false)
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  await put(other, entryOf('c', 'x'))
  await learned(one, 'c')
  t.ok(statSync(join(one.path, 'purges')).size > 30)
})

t.test('a segment that cannot be read at the start is counted, and costs its own entries', async t => {
  const first = await openedAt(t, testFolder(t), room, entryOf('a', 'x'))
  await first.tier.close()
  class FailingFiles extends DiskFiles {
    override async read (): Promise<Buffer> {
      return await Promise.reject(new Error('EIO'))
    }
  }
  const failed: string[] = []
  const onError = (operation: string): void => {
    failed.push(operation)
  }
  const { path } = first
  const files = new FailingFiles({ path, onError })
  const keeper = new DiskKeeper({ path, maxBytes: room, writers: 1, files, foundCorrupt: t.fail, onError })
  await keeper.open()
  t.same(failed, ['scan'])
  const disk = Object.assign(await openDiskTier(t, path, room, true, { writers: 1, keeper }), { path })
  await put(disk, entryOf('b', 'x'))
  t.same([await found(disk, 'a'), await found(disk, 'b'), disk.counts.failed], [undefined, 'x', []])
})

t.test('a process whose keeper does not respond reads nothing until it does', async t => {
  const first = await openedAt(t, testFolder(t), room, entryOf('a', 'x'))
  const { keeper, path } = first
  const whole = keeper.for.bind(keeper)
  let isResponding = false
  keeper.for = member => {
    const methods = whole(member)
    return {
      ...methods,
      joinLog: async () => isResponding ? await methods.joinLog() : await Promise.reject(new Error('no response'))
    }
  }
  const disk = await openDiskTier(t, path, room, true, { writers: 2, keeper })
  t.same([await found(disk, 'a'), disk.counts.failed], [undefined, ['scan']])
  t.match(disk.tier.warnings, [/^disk tier not read yet/])
  isResponding = true
  await disk.tier.resume()
  await learned(Object.assign(disk, { path }), 'a')
  t.same(disk.tier.warnings, [])
})

t.test('what is said of a segment that has left, or is damaged, teaches no process anything', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'))
  await learned(other, 'a')
  const { entries } = other.tier.status
  const rows = new SegmentList()
  rows.add({ digest: randomBytes(16), sequence: 0, offset: 100, length: 100, interval: undefined })
  const said = { space, bytes: 200, isCopied: false, rows: rows.encode() }
  const announce = async (number: number, bytes: Buffer): Promise<void> => {
    one.keeper.for(one.tier).announce({ ...said, number, rows: bytes })
    await new Promise(resolve => setImmediate(resolve))
  }
  await announce(99, said.rows)
  await announce(1, Buffer.from(said.rows).fill(7, 0, 1))
  t.match(other.tier.status, { entries })
  await announce(1, said.rows)
  t.match(other.tier.status, { entries: (entries ?? 0) + 1 })
})

t.test('a segment that has grown beyond any is not read, and costs its own entries', async t => {
  const first = await openedAt(t, testFolder(t), room, entryOf('a', 'x'))
  await first.tier.close()
  const [path = ''] = segmentsIn(first.path)
  truncateSync(path, 200 * 1024 ** 2)
  const disk = await openedAt(t, first.path, room, entryOf('b', 'x'))
  t.same([await found(disk, 'a'), await found(disk, 'b'), disk.counts.failed], [undefined, 'x', ['scan']])
  t.notOk(existsSync(path), 'it gives its room')
})

t.test('a purge that is saved in a folder that was emptied begins the log again', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'))
  await learned(other, 'a')
  await purge(one, 'b')
  for (const name of readdirSync(one.path)) rmSync(join(one.path, name), { recursive: true })
  await purge(one, 'c')
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  t.equal(await one.keeper.restore(), false, 'once')
})

t.test('a keeper that has lost its folder confirms purges, and touches no file', async t => {
  const [one, other] = await two(t)
  await put(one, entryOf('a', 'x'))
  await learned(other, 'a')
  const before = readdirSync(one.path)
  const member = one.keeper.for(memberWith())
  await member.joinLog()
  one.keeper.giveUp()
  await member.endEviction([1, 2], 0)
  t.equal(await purge(other, 'a'), false)
  t.same([await found(one, 'a'), await found(other, 'a')], [undefined, undefined])
  one.tier.put(space, { stored: entryOf('b', 'x'), ttlMs: undefined })
  await one.tier.waitUntilIdle()
  rmSync(join(one.path, 'purges'))
  await purge(one, 'b')
  t.equal(await one.keeper.restore(), false)
  t.same(readdirSync(one.path), before.filter(name => name !== 'purges'))
  t.match(one.tier.warnings, ['disk rejects writes: the folder is gone, or another varve has it'])
})

t.test('more processes than the log was made for get no more room than it has', async t => {
  const { keeper, tier } = await openDiskTier(t, testFolder(t), room, true, { writers: 1 })
  await tier.close()
  const began = await Promise.allSettled(Array.from({ length: 20 }, async () => {
    const member = keeper.for(memberWith())
    await member.joinLog()
    return await member.beginSegment({ space, bytes: 1000, mustEvict: false })
  }))
  t.equal(began.filter(({ status }) => status === 'fulfilled').length, 15)
  t.match(began.at(-1), { reason: new Error('more processes write than the log has room for') })
})
