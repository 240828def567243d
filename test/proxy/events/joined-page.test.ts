import fc from 'fast-check'
import t from 'tap'
import { costOf, type Entry, makeEntry, tagOf } from '../../../src/cache/entry.js'
import { joinedPage } from '../../../src/proxy/events/joined-page.js'
import { Memory } from '../../../src/cache/memory.js'
import { PageLimit } from '../../../src/proxy/events/page-limit.js'
import { StreamNames } from '../../../src/proxy/events/stream-names.js'
import { readEventPage } from '../../../src/api/event-page.js'
import { check, seeded } from '../../support/properties.js'

const json = 'application/json'
const event = (sequence: number, text = ''): string =>
  `{"version":"${
    sequence * 3
  }","guid":{"creation_number":"7","account_address":"0x1"},"sequence_number":"${sequence}","type":"0x1::a::B","data":"${text}${
    '],[é'.repeat(sequence % 5)
  }"}`
const bodyOf = (first: number, count: number, text?: string): string =>
  `[${Array.from({ length: count }, (_, at) => event(first + at, text)).join()}]`

interface Change {
  readonly release?: string | undefined
  readonly expiresAtMs?: number
  readonly contentType?: string
  readonly ownLines?: string[]
  readonly body?: string
  readonly stream?: string
}

function pageOf (first: number, count: number, change: Change = {}): Entry {
  const body = Buffer.from(change.body ?? bodyOf(first, count))
  const { offsets } = readEventPage(body) ?? {}
  const range = { stream: change.stream ?? 's', first: BigInt(first), last: BigInt(first + count - 1), offsets }
  return makeEntry({
    key: `${range.stream} ${first} ${count}`,
    status: 200,
    contentType: change.contentType ?? json,
    body,
    ownLines: change.ownLines ?? [],
    release: 'release' in change ? change.release : 'aaaa',
    expiresAtMs: change.expiresAtMs,
    page: range,
    lowestVersion: BigInt(first * 3)
  })
}

function tier (
  ...entries: readonly Entry[]
): { memory: Memory, clock: { ms: number }, join: (first: number, count: number, gone?: string) => Entry | undefined } {
  const clock = { ms: 0 }
  const memory = new Memory(1e7, { wrote: () => {}, evicted: () => {} }, () => clock.ms)
  for (const entry of entries) memory.set(entry)
  return {
    memory,
    clock,
    join: (first, count, gone) =>
      joinedPage(
        memory,
        { stream: 's', key: 'k', first: BigInt(first), last: BigInt(first + count - 1) },
        release => release === gone
      )
  }
}

t.test(`what is put together is what would have been read at once, in every byte, and can be a part again (${seeded})`, async () => {
  const pages = fc.array(fc.tuple(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 20 })), {
    minLength: 1,
    maxLength: 8
  })
  const wanted = fc.tuple(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 25 }))
  check(fc.property(pages, wanted, wanted, (kept, [first, count], [again, more]) => {
    const { memory, join } = tier(...kept.map(([from, length]) => pageOf(from, length)))
    for (const [from, length] of [[first, count], [again, more]] as const) {
      const isThere = Array.from({ length }, (_, at) => from + at).every(at =>
        kept.some(([begin, size]) => begin <= at && at < begin + size)
      )
      const joined = join(from, length)
      if (!isThere && joined === undefined) continue
      const body = bodyOf(from, length)
      const read = readEventPage(Buffer.from(body))
      if (
        joined?.body.toString() !== body || joined.etag !== tagOf(json, Buffer.from(body)) ||
        joined.lowestVersion !== read?.lowestVersion
      ) return false
      if (
        joined.page?.offsets?.join() !== read?.offsets?.join() || joined.page?.first !== read?.first ||
        joined.page?.last !== read?.last
      ) return false
      memory.set(joined)
    }
    return true
  }))
})

t.test('it ends when the first of its parts does, and not at all where none does; one that has expired is no part', async t => {
  const { join, clock, memory } = tier(
    pageOf(0, 10, { expiresAtMs: 50 }),
    pageOf(10, 10, { expiresAtMs: 40 }),
    pageOf(20, 10),
    pageOf(30, 5)
  )
  t.equal(join(5, 10)?.expiresAtMs, 40)
  t.equal(join(15, 10)?.expiresAtMs, 40)
  t.equal(join(25, 10)?.expiresAtMs, undefined)
  clock.ms = 40
  t.equal(memory.pages, 4)
  t.equal(join(5, 10), undefined)
  t.equal(memory.pages, 3, 'it is not found any more')
  t.equal(join(2, 5)?.expiresAtMs, 50)
  memory.set(pageOf(12, 3, { expiresAtMs: 45 }))
  memory.set(pageOf(12, 2))
  clock.ms = 45
  t.equal(join(12, 2)?.body.toString(), bodyOf(12, 2), 'another that has it takes the place of what has expired')
})

t.test('however many have expired, nobody looks for ever', async t => {
  const { join, clock } = tier(...Array.from({ length: 12 }, (_, at) => pageOf(0, 12 - at, { expiresAtMs: 10 })))
  clock.ms = 10
  t.equal(join(0, 1), undefined)
})

t.test('all parts are of one release, one that still runs where there is a choice; of those that nobody knows only one alone will do', async t => {
  const { join } = tier(
    pageOf(0, 10, { release: 'old' }),
    pageOf(10, 10, { release: 'old' }),
    pageOf(5, 10, { release: 'new', body: bodyOf(5, 10, 'n') }),
    pageOf(40, 10, { release: undefined }),
    pageOf(50, 10, { release: undefined }),
    pageOf(12, 3, { release: undefined })
  )
  t.match(join(6, 5, 'old'), { release: 'new' })
  t.equal(join(6, 5, 'old')?.body.toString(), bodyOf(6, 5, 'n'))
  t.match(join(6, 5, 'new'), { release: 'old' })
  t.match(join(0, 15, 'old'), { release: 'old' }, 'where the other has not all of it')
  t.equal(join(12, 3, 'old')?.release, 'new', 'before one that nobody knows')
  t.equal(
    tier(pageOf(0, 10, { release: 'old' }), pageOf(2, 5, { release: undefined })).join(3, 2, 'old')?.release,
    undefined,
    'which goes before one that runs no more'
  )
  t.same([join(45, 10), join(42, 3)?.release, join(42, 3)?.body.toString()], [undefined, undefined, bodyOf(42, 3)])
})

t.test('pages of two types, with lines of their own, not in one line, of another stream, or in which versions fall, are no parts', async t => {
  const spaced = bodyOf(10, 10).replaceAll('},{"version', '}, {"version')
  const back = bodyOf(10, 10).replace('"version":"30"', '"version":"26"')
  t.ok(tier(pageOf(0, 10), pageOf(10, 10)).join(5, 10))
  for (
    const change of [
      { contentType: 'application/json; charset=utf-8' },
      { ownLines: ['x-aptos-cursor', '00'] },
      { body: spaced },
      { body: back },
      { stream: 'other' }
    ]
  ) {
    t.equal(tier(pageOf(0, 10), pageOf(10, 10, change)).join(5, 10), undefined, JSON.stringify(change).slice(0, 50))
  }
})

t.test('a page costs what the places of its events take, and leaves the index with its entry, however it goes', async t => {
  const one = pageOf(0, 50)
  t.ok(costOf(one) > costOf(makeEntry({ ...one, page: undefined })) + 51 * 4)
  const { memory } = tier(one, pageOf(20, 50), pageOf(60, 10), pageOf(60, 10, { stream: 'other' }))
  t.equal(memory.pages, 4)
  memory.set(pageOf(0, 50))
  t.equal(memory.pages, 4)
  memory.delete(one.key)
  t.same(memory.pagesWith('s', { first: 0n, last: 69n }).map(({ key }) => key), ['s 20 50', 's 60 10'])
  memory.deletePages('s', { first: 69n, last: 69n })
  t.same([memory.pages, memory.entries], [1, 1])
  memory.clear()
  t.equal(memory.pages, 0)
  const small = new Memory(3 * costOf(one), { wrote: () => {}, evicted: () => {} }, () => 0)
  for (let first = 0; first < 1000; first += 50) small.set(pageOf(first, 50))
  t.ok(small.pages === small.entries && small.pages < 4)
})

t.test('where a path leads is believed for its time, and what an answer from later shows at once; one from before tells nothing', async t => {
  const clock = { ms: 0 }
  let changes = 0
  const names = new StreamNames(() => clock.ms, () => {
    changes++
  })
  names.learn('p', 'a', 10n, 100)
  t.match(names.find('p'), { stream: 'a', expiresAtMs: 100 })
  clock.ms = 60
  names.learn('p', 'a', 10n, 100)
  t.same([names.find('p')?.expiresAtMs, changes], [160, 1], 'seen again it is believed longer, and nothing has changed')
  names.learn('p', 'b', 9n, 100)
  names.forget('p', 9n)
  t.equal(names.find('p')?.stream, 'a')
  names.learn('p', 'b', 10n, 100)
  t.same([names.find('p')?.stream, names.find('q'), changes], ['b', undefined, 2])
  clock.ms = 160
  t.same([names.find('p'), names.lastOf('p'), names.lastOf('q')], [undefined, 'b', undefined])
  names.forget('q')
  names.forget('p', 10n)
  names.forget('p')
  t.same([names.lastOf('p'), changes], [undefined, 3])
})

t.test('others are told where a path leads when they have not been, or have believed it for half of its time, and at once when it leads elsewhere', async t => {
  const clock = { ms: 0 }
  const names = new StreamNames(() => clock.ms, () => {})
  const told = (stream: string): boolean => {
    names.learn('p', stream, 1n, 100)
    return names.toShare('p') !== undefined
  }
  t.equal(names.toShare('p'), undefined, 'nobody knows')
  t.same([told('a'), told('a')], [true, false])
  clock.ms = 40
  t.equal(told('a'), false)
  clock.ms = 60
  t.same([told('a'), told('a'), told('b'), told('b')], [true, false, true, false])
})

t.test('as many events are put together as came at once, of this chain, until a node cuts what is more than fewer', async t => {
  const limit = new PageLimit()
  const allowed = (space: string): number =>
    Array.from({ length: 200 }, (_, at) => at + 1).filter(count => limit.allows(space, BigInt(count))).length
  t.equal(allowed('4.1'), 0)
  limit.gaveAll('4.1', 50n)
  limit.gaveAll('4.1', 20n)
  limit.gaveOnly('4.1', 100n)
  t.same([allowed('4.1'), allowed('4.2')], [50, 0])
  limit.gaveOnly('4.1', 30n)
  t.equal(allowed('4.1'), 30)
  limit.gaveAll('4.2', 5n)
  t.same([allowed('4.1'), allowed('4.2')], [0, 5])
})

t.test('what is put together keeps to its share of the tier with its coded forms too, and what a node says in its place is a node\'s', async t => {
  const inStream = (stream: string, text = ''): Entry => pageOf(0, 20, { stream, body: bodyOf(0, 20, text) })
  const cost = costOf(inStream('a'))
  const memory = new Memory(16 * 3 * cost + 15, { wrote: () => {}, evicted: () => {} }, () => 0)
  const pages = ['a', 'b', 'c'].map(stream => inStream(stream))
  for (const page of pages) memory.setJoined(page)
  const [first, , third] = pages as [Entry, Entry, Entry]
  const left = (): string[] =>
    ['a', 'b', 'c', 'd', 'e', 'f'].filter(stream => memory.get(inStream(stream).key) !== undefined)
  t.same(left(), ['a', 'b', 'c'])
  t.ok(memory.replace(third, inStream('c', 'xxxx')))
  t.same(left(), ['b', 'c'], 'the one that was put together first makes room')
  t.notOk(
    memory.replace(memory.get(third.key) ?? third, inStream('c', 'x'.repeat(cost))),
    'a form that takes more than all of the share is not kept'
  )
  memory.set(first)
  memory.setJoined(first)
  memory.set(first)
  for (const stream of ['d', 'e', 'f']) memory.setJoined(inStream(stream))
  t.same(left(), ['a', 'd', 'e', 'f'])
})
