import t from 'tap'
import { costOf, makeEntry, type Entry, type EntryParts } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'

const entry = (body: string, change: Partial<EntryParts> = {}): Entry =>
  makeEntry({
    key: '0',
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(body),
    cursorAndGasHeaders: ['x-aptos-cursor', '00'],
    release: 'aaaa',
    ...change
  })

const countEvents = (): { wrote: () => void, evicted: () => void, writes: number, evictions: number } => {
  const counts = {
    writes: 0,
    evictions: 0,
    wrote: () => {
      counts.writes++
    },
    evicted: () => {
      counts.evictions++
    }
  }
  return counts
}

t.test('an entry has prepared headers: content type, length, ETag and headers per response', async t => {
  const made = entry('[1]')
  t.same(made.rawHeaders, [
    'content-type',
    'application/json',
    'content-length',
    '3',
    'etag',
    made.etag,
    'x-aptos-cursor',
    '00'
  ])
  t.same(made.cursorAndGasHeaders, ['x-aptos-cursor', '00'])
  t.match(made.etag, /^"[A-Za-z0-9_-]{27}"$/)
})

t.test('an entry with unprintable headers has no header text but still has a cost', async t => {
  const odd = entry('[1]', { cursorAndGasHeaders: ['x-aptos-cursor', 'a\r\nb'] })
  t.equal(odd.headerText, undefined)
  t.ok(costOf(odd) > 1000)
})

t.test('equal bodies of one type have one ETag, and others differ', async t => {
  t.equal(entry('[1]').etag, entry('[1]').etag)
  t.not(entry('[1]').etag, entry('[2]').etag)
  // Other releases of varve verify shared entries by their ETag, so it must not change.
  t.equal(entry('[1]').etag, '"18XXE5NuDdKUGRONiktP5JagnK7"')
  t.not(entry('[1]').etag, entry('[1]', { contentType: 'application/x-bcs' }).etag)
})

t.test('an entry owns its body, so it retains no larger buffer', async t => {
  const slab = Buffer.alloc(10_000, 'x')
  const made = makeEntry({
    key: '0',
    status: 200,
    contentType: 'application/json',
    body: slab.subarray(0, 10),
    cursorAndGasHeaders: [],
    release: undefined
  })
  t.equal(made.body.buffer.byteLength, 10)
  slab.fill('y')
  t.equal(made.body.toString(), 'xxxxxxxxxx')
})

t.test('the memory tier stays within its bytes and evicts the least recently used entries', async t => {
  const counts = countEvents()
  const one = costOf(entry('x'.repeat(1000)))
  const memory = new MemoryTier(3 * one, counts, () => 0)
  for (const key of ['0', '1', '2']) memory.put(entry('x'.repeat(1000), { key }))
  t.equal(memory.entries, 3)
  memory.getByKey('0')
  memory.put(entry('x'.repeat(1000), { key: '3' }))
  t.equal(memory.getByKey('1'), undefined)
  t.ok(memory.getByKey('0'))
  t.ok(memory.bytes <= 3 * one)
  t.same([counts.writes, counts.evictions], [4, 1])
})

t.test('the memory tier reports once that it is more than half full', async t => {
  const one = costOf(entry('x'.repeat(1000)))
  let changeCount = 0
  const memory = new MemoryTier(4 * one, countEvents(), () => 0, () => {
    changeCount++
  })
  for (const key of ['0', '1', '1']) memory.put(entry('x'.repeat(1000), { key }))
  t.equal(changeCount, 0)
  memory.put(entry('', { key: '2' }))
  t.equal(changeCount, 1)
  for (const key of ['2', '3', '4']) memory.put(entry('x'.repeat(1000), { key }))
  t.equal(changeCount, 1)
  memory.clear()
  for (const key of ['2', '3', '4']) memory.put(entry('x'.repeat(1000), { key }))
  t.equal(changeCount, 1)
})

t.test('keys and overhead count, so many small entries are bounded too', async t => {
  const memory = new MemoryTier(100_000, countEvents(), () => 0)
  for (let n = 0; n < 1000; n++) memory.put(entry('', { key: 'k'.repeat(400) + String(n) }))
  t.ok(memory.entries < 100, String(memory.entries))
})

t.test('an entry larger than the whole tier is not stored and evicts nothing', async t => {
  const counts = countEvents()
  const memory = new MemoryTier(10_000, counts, () => 0)
  memory.put(entry('x', { key: 'small' }))
  memory.put(entry('x'.repeat(20_000), { key: 'large' }))
  t.equal(memory.getByKey('large'), undefined)
  t.ok(memory.getByKey('small'))
  t.same([counts.writes, counts.evictions], [1, 0])
})

const blockOf = (first: bigint, last: bigint, body: string, height = first): Entry =>
  entry(body, { key: `json ${height}`, validity: { family: 'json', first, last } })

const blockAt = (memory: MemoryTier, version: bigint): Entry | undefined =>
  memory.get({ by: 'version', family: 'json', version })
const purgeBlock = (memory: MemoryTier, family: string, version: bigint): void => {
  memory.invalidate({ keys: [], intervals: [{ family, first: version, last: version }] })
}

t.test('an evicted block is not found by its versions, and a block read by version stays', async t => {
  const counts = countEvents()
  const one = costOf(blockOf(10n, 19n, 'x'.repeat(1000)))
  const memory = new MemoryTier(3 * one, counts, () => 0)
  for (const first of [10n, 20n, 30n]) memory.put(blockOf(first, first + 9n, 'x'.repeat(1000)))
  t.ok(blockAt(memory, 15n))
  memory.put(blockOf(40n, 49n, 'x'.repeat(1000)))
  t.same(
    [15n, 25n, 35n, 45n].map(version => blockAt(memory, version) !== undefined),
    [true, false, true, true]
  )
  t.same([memory.entries, memory.intervals, counts.writes, counts.evictions], [3, 3, 4, 1])
})

t.test('a block put under the same key with another range is found by that range only', async t => {
  const memory = new MemoryTier(1e6, countEvents(), () => 0)
  memory.put(blockOf(10n, 19n, 'old', 1n))
  memory.put(blockOf(15n, 24n, 'new', 1n))
  t.same(
    [14n, 15n, 24n].map(version => blockAt(memory, version)?.body.toString()),
    [undefined, 'new', 'new']
  )
  t.same([memory.entries, memory.intervals], [1, 1])
})

t.test('a block larger than the whole tier leaves no record in the index', async t => {
  const memory = new MemoryTier(10_000, countEvents(), () => 0)
  memory.put(blockOf(10n, 19n, 'x'))
  t.equal(memory.put(blockOf(30n, 39n, 'x'.repeat(20_000))), false)
  t.same([blockAt(memory, 35n), memory.entries, memory.intervals], [
    undefined,
    1,
    1
  ])
  t.equal(memory.put(blockOf(10n, 19n, 'x'.repeat(20_000))), false, 'the same block, grown too large')
  t.same([blockAt(memory, 15n), memory.entries, memory.intervals], [
    undefined,
    0,
    0
  ])
})

t.test('a replaced block is found by its versions, and a removed one does not return', async t => {
  const memory = new MemoryTier(1e6, countEvents(), () => 0)
  const made = blockOf(10n, 19n, 'x')
  memory.put(made)
  const by = { ...made }
  t.ok(memory.replace(made, by))
  t.equal(blockAt(memory, 15n), by)
  t.equal(memory.intervals, 1)
  t.notOk(memory.replace(made, { ...made }), 'it was replaced meanwhile')
  memory.put(blockOf(12n, 25n, 'y'))
  t.notOk(memory.replace(by, made))
  t.equal(memory.latestOf(by), undefined)
  t.same([10n, 15n].map(version => blockAt(memory, version)?.body.toString()), [
    undefined,
    'y'
  ])
})

t.test('an entry expires exactly at its expiry time', async t => {
  let now = 0
  const counts = countEvents()
  const memory = new MemoryTier(1e6, counts, () => now)
  memory.put(entry('x', { key: 'page', expiresAtMs: 5 }))
  now = 4.9
  t.ok(memory.getByKey('page'))
  now = 5
  t.equal(memory.getByKey('page'), undefined)
  t.same([memory.entries, memory.bytes, counts.evictions], [0, 0, 0])
})

t.test('a deleted entry is gone, with a block\'s versions, and its bytes are free', async t => {
  const counts = countEvents()
  const memory = new MemoryTier(1e6, counts, () => 0)
  memory.put(entry('x', { key: 'a' }))
  memory.put(blockOf(10n, 19n, 'x'))
  const bytes = memory.bytes
  memory.put(entry('x', { key: 'b' }))
  memory.put(blockOf(20n, 29n, 'x'))
  for (const key of ['b', 'json 20', 'never there']) memory.invalidate({ keys: [key], intervals: [] })
  t.same([
    memory.getByKey('b'),
    blockAt(memory, 20n),
    blockAt(memory, 29n)
  ], [undefined, undefined, undefined])
  t.ok(memory.getByKey('a'))
  t.ok(blockAt(memory, 15n))
  t.same([memory.entries, memory.intervals, memory.bytes], [2, 1, bytes])
  t.equal(counts.evictions, 0, 'nothing was evicted')
})

t.test('a block is deleted by any of its versions, and by no other version or family', async t => {
  for (const version of [10n, 15n, 19n]) {
    const memory = new MemoryTier(1e6, countEvents(), () => 0)
    for (const first of [0n, 10n, 20n]) memory.put(blockOf(first, first + 9n, 'x'))
    for (const beside of [30n, 2n ** 64n - 1n]) {
      purgeBlock(memory, 'json', beside)
    }
    purgeBlock(memory, 'bcs', version)
    t.same([memory.entries, memory.intervals], [3, 3])
    purgeBlock(memory, 'json', version)
    t.same([0n, 9n, 10n, 15n, 19n, 20n].map(at => blockAt(memory, at) !== undefined), [
      true,
      true,
      false,
      false,
      false,
      true
    ])
    t.same([memory.getByKey('json 10'), memory.entries, memory.intervals], [undefined, 2, 2])
    memory.put(blockOf(10n, 19n, 'again'))
    t.equal(blockAt(memory, version)?.body.toString(), 'again')
  }
})

t.test('clearing removes all entries and records, and later entries are stored as usual', async t => {
  const counts = countEvents()
  const memory = new MemoryTier(1e6, counts, () => 0)
  const made = blockOf(10n, 19n, 'x')
  for (
    const one of [
      entry('x', { key: 'a' }),
      entry('y', { key: 'b', expiresAtMs: 5 }),
      made,
      blockOf(2n ** 53n + 1n, 2n ** 64n - 1n, 'x')
    ]
  ) memory.put(one)
  memory.clear()
  t.same([memory.entries, memory.bytes, memory.intervals, counts.evictions], [0, 0, 0, 0])
  t.same([memory.getByKey('a'), memory.getByKey('b')], [undefined, undefined])
  t.same([blockAt(memory, 15n), blockAt(memory, 2n ** 64n - 1n)], [undefined, undefined])
  t.equal(memory.replace(made, { ...made }), false, 'a coding that ends later does not restore it')
  t.equal(memory.latestOf(made), undefined)
  memory.put(blockOf(15n, 24n, 'y'))
  t.same([
    blockAt(memory, 14n),
    blockAt(memory, 15n)?.body.toString(),
    memory.intervals
  ], [
    undefined,
    'y',
    1
  ])
})
