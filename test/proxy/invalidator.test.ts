import t from 'tap'
import { makeEntry, type Entry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { StreamNames } from '../../src/proxy/events/stream-names.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { invalidationOf, LocalInvalidator } from '../../src/proxy/local-invalidator.js'
import { keysOf, microCacheKeyOf, streamIndexKeyOf, type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { type TestRequest, tableItemLookup } from '../support/client.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'

const chain = { id: 4, generation: 2 }
const bcs = 'application/x-bcs'

function readAt (
  target: string,
  { accept, body, method = 'GET' }: TestRequest & { accept?: string | undefined } = {}
): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(`no read at ${target}`)
  return readRequest(match, { method, accept, contentType: 'application/json', body: Buffer.from(body ?? '') }, {
    eventsDefault: 25
  })
}

function tier (): {
  memory: MemoryTier,
  forgetting: LocalInvalidator,
  keep: (key: string, block?: Entry['block']) => Entry
} {
  const memory = new MemoryTier(1e6, { wrote: () => {}, evicted: () => {} }, () => 0)
  const keep = (key: string, block?: Entry['block']): Entry => {
    const entry = makeEntry({
      key,
      status: 200,
      contentType: 'application/json',
      body: Buffer.from(key),
      perResponseHeaders: [],
      release: undefined,
      block
    })
    memory.put(entry)
    return entry
  }
  return { memory, forgetting: new LocalInvalidator(memory, new StreamNames(() => 0, () => {})), keep }
}

t.test('a purge of a read removes both representations, micro-cached or stored, and nothing else', async t => {
  const post = (key: string): TestRequest => ({ method: 'POST', body: String(tableItemLookup('u64', key).body) })
  const reads: [string, TestRequest][] = [
    ['/v1/accounts/0x1/modules?ledger_version=5&limit=2', {}],
    ['/v1/accounts/0x1/modules', {}],
    ['/v1/info', {}],
    ['/v1/estimate_gas_price', {}],
    ['/v1/accounts/0x1/events/0x1::a::B/c?start=5&limit=7', {}],
    ['/v1/tables/0xab/item?ledger_version=5', post('"7"')],
    ['/v1/tables/0xab/item?ledger_version=5', post('"8"')],
    ['/v1/accounts/0x1/modules?ledger_version=6&limit=2', {}],
    ['/v1/accounts/0x1/modules?ledger_version=5&limit=3', {}],
    ['/v1/accounts/0x2/modules?ledger_version=5&limit=2', {}]
  ]
  const keysIn = ([target, how]: [string, TestRequest]): string[] =>
    [undefined, bcs].flatMap(accept => {
      const keys = keysOf(readAt(target, { ...how, accept }), chain)
      return [keys.value, keys.text, microCacheKeyOf(keys)]
    })
  for (const read of reads) {
    const { memory, forgetting, keep } = tier()
    for (const key of new Set(reads.flatMap(keysIn))) keep(key)
    for (const accept of [undefined, bcs]) {
      const what = invalidationOf(readAt(read[0], { ...read[1], accept }), chain)
      t.same(keysIn(read).filter(key => !what.keys.includes(key)), [], read[0])
      t.same(what.blocks, [])
      forgetting.invalidate(what)
    }
    for (const other of reads) {
      for (const key of keysIn(other)) {
        t.equal(memory.get(key) !== undefined, other !== read, `${key} when ${read[0]} is purged`)
      }
    }
  }
})

t.test('a purge of a table item removes its value for all variants, a not-found for its text only', async t => {
  const target = '/v1/tables/0xab/item?ledger_version=5'
  const keysFor = (key: string): ReturnType<typeof keysOf> =>
    keysOf(readAt(target, { method: 'POST', body: String(tableItemLookup('u64', key).body) }), chain)
  const { memory, forgetting, keep } = tier()
  for (const key of ['"7"', '"007"']) for (const name of [keysFor(key).value, keysFor(key).text]) keep(name)
  forgetting.invalidate(
    invalidationOf(readAt(target, { method: 'POST', body: String(tableItemLookup('u64', '"007"').body) }), chain)
  )
  t.equal(memory.get(keysFor('"7"').value), undefined)
  t.equal(memory.get(keysFor('"007"').text), undefined)
  t.ok(memory.get(keysFor('"7"').text))
})

t.test('a purge by any version of a block, in any form, removes all four forms', async t => {
  const families = [
    '4.2 json blocks',
    '4.2 json blocks with_transactions',
    '4.2 bcs blocks',
    '4.2 bcs blocks with_transactions'
  ]
  for (
    const [version, query, accept] of [[10n, '', undefined], [15n, '?with_transactions=true', undefined], [
      19n,
      '?with_transactions=false',
      bcs
    ], [12n, '?with_transactions=true', bcs]] as const
  ) {
    const { memory, forgetting, keep } = tier()
    for (const blockIndexKey of families) {
      keep(`${blockIndexKey} 1`, { blockIndexKey, first: 10n, last: 19n })
      keep(`${blockIndexKey} 2`, { blockIndexKey, first: 20n, last: 29n })
    }
    keep('4.1 json blocks 1', { blockIndexKey: '4.1 json blocks', first: 10n, last: 19n })
    const what = invalidationOf(readAt(`/v1/blocks/by_version/${version}${query}`, { accept }), chain)
    t.same([...what.blocks].map(({ blocks }) => blocks).sort(), [...families].sort())
    t.same(new Set(what.blocks.map(block => block.version)), new Set([version]))
    forgetting.invalidate(what)
    for (const blocks of families) {
      t.same([memory.getBlock(blocks, 10n), memory.getBlock(blocks, 20n)?.key], [undefined, `${blocks} 2`])
    }
    t.ok(memory.getBlock('4.1 json blocks', 10n), 'another generation has other blocks')
  }
})

t.test('a fetch can tell whether a purge came since, and what it stored despite one is removed', async t => {
  const { memory, forgetting, keep } = tier()
  const before = forgetting.count
  forgetting.invalidate({ keys: ['no such'], blocks: [{ blocks: 'none', version: 1n }] })
  t.not(forgetting.count, before)
  const between = forgetting.count
  for (const key of ['a', 'b']) keep(key)
  t.notOk(forgetting.removeIfInvalidated(undefined, before))
  const [c, d] = [keep('c'), keep('d')]
  t.notOk(forgetting.removeIfInvalidated(d, between), 'no purge since')
  forgetting.invalidate({ keys: ['c'], blocks: [] })
  t.notOk(forgetting.removeIfInvalidated(d, between), 'a purge of another key')
  t.ok(forgetting.removeIfInvalidated(c, between))
  t.same(['a', 'b', 'c'].map(key => memory.get(key) !== undefined), [true, true, false])
  const late = forgetting.count
  forgetting.invalidateAll()
  t.not(forgetting.count, between)
  t.equal(memory.entries, 0)
  t.ok(forgetting.hasInvalidated(c, late), 'a purge of all covers every key')
  const later = forgetting.count
  for (let nth = 0; nth < 256; nth++) forgetting.invalidate({ keys: ['no such'], blocks: [] })
  t.notOk(forgetting.hasInvalidated(c, later))
  forgetting.invalidate({ keys: ['no such'], blocks: [] })
  t.ok(forgetting.hasInvalidated(c, later), 'purges too far back count as purges of all')
  const block = keep('4.2 json blocks 1', { blockIndexKey: '4.2 json blocks', first: 10n, last: 19n })
  const last = forgetting.count
  forgetting.invalidate({ keys: [], blocks: [{ blocks: '4.2 json blocks', version: 20n }] })
  t.notOk(forgetting.hasInvalidated(block, last))
  forgetting.invalidate({ keys: [], blocks: [{ blocks: '4.2 json blocks', version: 19n }] })
  t.ok(forgetting.hasInvalidated(block, last))
})

t.test('a response fetched before a purge is served to its client, but not stored after it', async t => {
  const targets = [
    '/v1/accounts/0x1/modules?ledger_version=500',
    '/v1/accounts/0x1/modules',
    '/v1/estimate_gas_price',
    '/v1/accounts/0x1/events/0x1::a::B/c'
  ]
  for (const target of targets) {
    const stub = await startStubUpstream(t, (_request, response, nth) => {
      if (nth === 1) {
        context.invalidator.invalidate(invalidationOf(readOfTarget(target), context.tracker.chain ?? chain))
      }
      respondOk(response, '[]')
    })
    const { context } = contextAt(t, stub.url)
    for (const entries of [0, target.includes('events') ? 0 : 1]) {
      t.match(await serveRead(context, readOfTarget(target)), { fetched: { response: { status: 200 } } })
      t.equal(context.memory.entries, entries, target)
    }
  }
})

t.test('a purge of an event page removes every page that shares an event, and the path mapping', async t => {
  const path = '/v1/accounts/0x1/events/0x1::a::B/c'
  const long = `/v1/accounts/0x${'1'.padStart(64, '0')}/events`
  const stream = `4.2 json ${long}/7`
  const names = new StreamNames(() => 0, () => {})
  const memory = new MemoryTier(1e6, { wrote: () => {}, evicted: () => {} }, () => 0)
  const forgetting = new LocalInvalidator(memory, names)
  const page = (first: bigint, last: bigint, of = stream): Entry => {
    const entry = makeEntry({
      key: `${of}?start=${first}&limit=${last - first + 1n}`,
      status: 200,
      contentType: 'application/json',
      body: Buffer.from('[]'),
      perResponseHeaders: [],
      release: undefined,
      page: { stream: of, first, last }
    })
    memory.put(entry)
    return entry
  }
  const handle = streamIndexKeyOf(chain, readOfTarget(path).path)
  for (const target of [`${path}?start=5&limit=10`, `${long}/7?start=5&limit=10`]) {
    memory.clear()
    names.learn(handle, stream, 1n, 1000)
    const [before, within, after, other] = [
      page(0n, 4n),
      page(4n, 5n),
      page(15n, 20n),
      page(5n, 14n, `4.2 json ${long}/8`)
    ]
    const times = forgetting.count
    const read = readOfTarget(target)
    const whatOf = forgetting.invalidationOf(read, chain)
    forgetting.invalidate(whatOf(chain))
    t.same(
      [before, within, after, other].map(({ key }) => memory.get(key) !== undefined),
      [true, false, true, true],
      target
    )
    t.equal(names.lastKnown(handle), target.startsWith(path) ? undefined : stream)
    t.same(
      whatOf({ id: 4, generation: 3 }).pages?.map(({ stream: of }) => of).sort(),
      [...new Set([streamIndexKeyOf({ id: 4, generation: 3 }, read.path), `4.3 json ${long}/7`])].sort(),
      'of any generation, also of unknown ones'
    )
    t.same([before, within, after, other].map(entry => forgetting.hasInvalidated(entry, times)), [
      false,
      true,
      false,
      false
    ])
    const asked = (first: bigint): boolean =>
      forgetting.hasInvalidated(other, times, { stream: streamIndexKeyOf(chain, read.path), first, last: first })
    t.same(
      [asked(4n), asked(5n), asked(14n), asked(15n)],
      [false, true, true, false],
      'by its own path'
    )
  }
  const nothing = invalidationOf(readOfTarget(`${path}?start=5&limit=0`), chain)
  t.equal(nothing.pages, undefined, 'a page without events covers none')
})
