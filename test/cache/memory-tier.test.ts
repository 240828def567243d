import t from 'tap'
import { costOf, makeEntry, type Entry, type EntryParts } from '../../src/cache/entry.js'
import { invalidates } from '../../src/cache/invalidation.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { space } from '../support/redis-tier.js'

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
const long = 'x'.repeat(1000)

const blockOf = (first: bigint, last: bigint, body: string, height = first): Entry =>
  entry(body, { key: `json ${height}`, validity: { family: 'json', first, last } })

/** A state response that is known to hold from one version to another. */
const stateAt = (first: bigint, last = first, family = 'one', dependencies = [16n]): Entry =>
  entry(family, { key: `${family} ${last}`, validity: { family, first, last }, dependencies })

/** Opens a memory tier that counts writes and evictions. */
function opened (
  maxBytes: number,
  now = () => 0,
  onHalfFull?: () => void
): { memory: MemoryTier, counts: { writes: number, evictions: number } } {
  const counts = { writes: 0, evictions: 0 }
  const metrics = {
    wrote: () => {
      counts.writes++
    },
    evicted: () => {
      counts.evictions++
    }
  }
  return { memory: new MemoryTier(maxBytes, metrics, now, onHalfFull), counts }
}

const bodyAt = (memory: MemoryTier, version: bigint): string | undefined =>
  memory.covering(space, 'json', version)?.body.toString()

t.test('an entry has prepared headers, its own bytes, and a cost even if a header is unprintable', async t => {
  const slab = Buffer.alloc(10_000, 'x')
  const made = entry('', { body: slab.subarray(0, 10) })
  slab.fill('y')
  // The type stands before the body, since the ETag is of both.
  const ownBytes = Buffer.byteLength(`${made.contentType}\n`) + 10
  t.same([made.body.toString(), made.body.buffer.byteLength], ['xxxxxxxxxx', ownBytes])
  t.same(made.rawHeaders, [
    'content-type',
    'application/json',
    'content-length',
    '10',
    'etag',
    made.etag,
    'x-aptos-cursor',
    '00'
  ])
  const odd = entry('[1]', { cursorAndGasHeaders: ['x-aptos-cursor', 'a\r\nb'] })
  t.equal(odd.headerText, undefined)
  t.ok(costOf(odd) > 1000)
  t.ok(costOf(stateAt(1n, 1n, 'one', [1n, 2n, 3n])) > costOf(stateAt(1n, 1n, 'one', [1n])), 'dependencies count')
})

t.test('equal bodies of one type have one ETag, and others differ', async t => {
  // Other releases of varve verify shared entries by their ETag, so it must not change.
  t.equal(entry('[1]').etag, '"18XXE5NuDdKUGRONiktP5JagnK7"')
  for (const other of [entry('[2]'), entry('[1]', { contentType: 'application/x-bcs' })]) {
    t.not(other.etag, entry('[1]').etag)
  }
})

t.test('the tier stays within its bytes, evicts the least recently used, reports half once', async t => {
  let halfFull = 0
  const { memory, counts } = opened(4 * costOf(entry(long)), undefined, () => {
    halfFull++
  })
  for (const key of ['0', '1', '1']) memory.put(space, entry(long, { key }))
  t.equal(halfFull, 0)
  memory.put(space, entry('', { key: '2' }))
  t.equal(halfFull, 1)
  for (const key of ['2', '3']) memory.put(space, entry(long, { key }))
  memory.getByKey('0')
  memory.put(space, entry(long, { key: '4' }))
  t.same(['0', '1', '2', '3', '4'].filter(key => memory.getByKey(key) === undefined), ['1'])
  memory.clear()
  t.same([memory.entries, memory.bytes], [0, 0])
  for (const key of ['2', '3', '4']) memory.put(space, entry(long, { key }))
  t.same([halfFull, counts.evictions], [1, 1], 'clearing is no eviction')
})

t.test('keys and overhead count, so many small entries are bounded too', async t => {
  const { memory } = opened(100_000)
  for (let n = 0; n < 1000; n++) memory.put(space, entry('', { key: 'k'.repeat(400) + String(n) }))
  t.ok(memory.entries < 100, String(memory.entries))
})

t.test('an entry larger than the whole tier is not stored and evicts no other', async t => {
  const { memory, counts } = opened(10_000)
  const [small, block] = [entry('x', { key: 'small' }), blockOf(10n, 19n, 'x')]
  for (const one of [small, block]) memory.put(space, one)
  for (const large of [entry('x'.repeat(20_000), { key: 'large' }), blockOf(30n, 39n, 'x'.repeat(20_000))]) {
    t.equal(memory.put(space, large), false)
    t.equal(memory.getByKey(large.key), undefined)
  }
  t.same([memory.entries, memory.intervals, counts.writes, counts.evictions], [2, 1, 2, 0])
  t.equal(memory.put(space, blockOf(10n, 19n, 'x'.repeat(20_000))), false, 'the same block, grown too large')
  t.same([bodyAt(memory, 15n), memory.entries, memory.intervals], [undefined, 1, 0])
})

t.test('the index has one record for each entry, and none for what is evicted, expired or purged', async t => {
  let now = 0
  const { memory } = opened(20_000, () => now)
  for (let at = 0n; at < 500n; at++) memory.put(space, blockOf(at * 10n, at * 10n + 9n, String(at)))
  t.ok(memory.entries < 20)
  t.same([memory.intervals, bodyAt(memory, 5n), bodyAt(memory, 4999n)], [memory.entries, undefined, '499'])
  memory.put(space, blockOf(4985n, 4994n, 'over two'))
  t.same([4984n, 4985n, 4994n, 4995n].map(version => bodyAt(memory, version)), [
    undefined,
    'over two',
    'over two',
    undefined
  ])
  memory.put(space, { ...blockOf(0n, 9n, 'x'), expiresAtMs: 5 })
  memory.put(space, { ...blockOf(10n, 19n, 'y'), expiresAtMs: 5 })
  now = 4.9
  t.equal(bodyAt(memory, 3n), 'x')
  now = 5
  t.equal(bodyAt(memory, 3n), undefined)
  t.equal(memory.findBefore('json', 15n), undefined)
  t.equal(memory.intervals, memory.entries)
  memory.clear()
  t.same([memory.entries, memory.intervals, bodyAt(memory, 4999n)], [0, 0, undefined])
})

t.test('a replaced entry is found by its versions, and one removed meanwhile does not return', async t => {
  const { memory } = opened(1e6)
  const made = blockOf(10n, 19n, 'x')
  memory.put(space, made)
  const by = { ...made }
  t.ok(memory.replace(made, by))
  t.equal(memory.covering(space, 'json', 15n), by)
  t.equal(memory.intervals, 1)
  t.notOk(memory.replace(made, { ...made }), 'it was replaced meanwhile')
  memory.put(space, blockOf(12n, 25n, 'y'))
  t.notOk(memory.replace(by, made))
  t.equal(memory.latestOf(by), undefined)
  t.same([bodyAt(memory, 10n), bodyAt(memory, 15n)], [undefined, 'y'])
  memory.clear()
  t.notOk(memory.replace(by, made))
})

t.test('the entry that begins last at or before a version is found, whether it reaches it or not', async t => {
  const { memory } = opened(1e6)
  for (const state of [stateAt(10n, 12n), stateAt(20n), stateAt(30n, 35n)]) memory.put(space, state)
  const found = [9n, 10n, 19n, 20n, 99n].map(version => memory.findBefore('one', version))
  t.same(found.map(one => [one?.entry.key, one?.last]), [
    [undefined, undefined],
    ['one 12', 12n],
    ['one 12', 12n],
    ['one 20', 20n],
    ['one 35', 35n]
  ])
  t.equal(memory.findBefore('other', 20n), undefined)
})

t.test('an interval grows to the version that it proved valid for, never back', async t => {
  const { memory } = opened(1e6)
  const [one, next] = [stateAt(10n), stateAt(20n)]
  for (const state of [one, next]) memory.put(space, state)
  for (const last of [15n, 12n]) memory.extend(one, 'one', last)
  memory.extend(stateAt(40n), 'one', 50n)
  memory.extend(one, 'other', 50n)
  t.match([memory.findBefore('one', 19n), memory.findBefore('one', 99n)], [{ last: 15n }, { last: 20n }])
  t.equal(memory.covering(space, 'one', 15n), one)
  t.equal(memory.covering(space, 'one', 16n), undefined)
  memory.drop(space, { keys: [one.key], intervals: [] })
  t.equal(memory.findBefore('one', 19n), undefined)
  t.equal(memory.intervals, 1, 'the record of a grown interval goes with its entry')
})

t.test('the key of a latest read purges every version of the read, and no other', async t => {
  const { memory } = opened(1e6)
  for (const state of [stateAt(10n), stateAt(20n), stateAt(10n, 10n, 'other')]) memory.put(space, state)
  const purge = { keys: ['one'], intervals: [] }
  memory.drop(space, purge)
  t.same([memory.entries, memory.intervals], [1, 1])
  t.ok(memory.findBefore('other', 10n))
  t.same([invalidates(purge, stateAt(10n)), invalidates(purge, stateAt(10n, 10n, 'other'))], [true, false])
})

t.test('entries that following proved are dropped together; all others stay', async t => {
  const { memory } = opened(1e6)
  for (const one of [stateAt(10n), blockOf(20n, 25n, 'x')]) memory.put(space, one)
  let drops = 0
  memory.memoHolders.add({ dropMemo: () => drops++ })
  memory.invalidateFollowed()
  t.same([memory.entries, memory.intervals, drops, bodyAt(memory, 20n)], [1, 1, 1, 'x'])
})

t.test('why an entry left is remembered in bounded memory, and never guessed', async t => {
  const clock = { ms: 0 }
  const { memory } = opened(8000, () => clock.ms)
  const put = (key: string, change: Partial<EntryParts> = {}): boolean =>
    memory.put(space, entry(long, { key: `${space.name} ${key}`, ...change }))
  const causeOf = (key: string): string => memory.removals.causeOf(`${space.name} ${key}`)
  t.equal(causeOf('a'), 'first')
  put('a')
  for (const key of ['b', 'c', 'd', 'i', 'j', 'k', 'l', 'e']) put(key)
  t.equal(causeOf('a'), 'evicted')
  memory.drop(space, { keys: [`${space.name} a`, `${space.name} e`, `${space.name} z`], intervals: [] })
  t.same(['a', 'e', 'z'].map(causeOf), ['purged', 'purged', 'first'], 'a lower tier may have had what was evicted')
  put('f', { expiresAtMs: 10 })
  clock.ms = 10
  t.equal(memory.getByKey(`${space.name} f`), undefined)
  t.equal(causeOf('f'), 'expired')
  put('g', { validity: { family: 'g', first: 1n, last: 1n }, dependencies: [16n] })
  memory.invalidateFollowed()
  t.equal(causeOf('g'), 'unknown')
  put('h')
  memory.empty('reset')
  t.equal(memory.removals.causeOf('another-space h'), 'reset')
  for (let at = 0; at < 1_000_000; at++) memory.removals.record(`s ${at}`, 'evicted')
  const causes = Array.from({ length: 1000 }, (_, at) => memory.removals.causeOf(`s new ${at}`))
  t.ok(causes.every(cause => cause === 'first' || cause === 'unknown'))
  t.ok(causes.filter(cause => cause === 'unknown').length > 900, 'their slots were taken')
})
