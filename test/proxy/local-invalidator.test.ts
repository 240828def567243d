import t from 'tap'
import { Space } from '../../src/chain/space.js'
import { makeEntry, type Entry } from '../../src/cache/entry.js'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { invalidationOfRead, LocalInvalidator } from '../../src/proxy/local-invalidator.js'
import { keysOf, microCacheKeyOf, type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { type TestRequest, tableItemLookup } from '../support/client.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { respondOk, startStubUpstream } from '../support/stub-upstream.js'

const space = Space.begin(4)
const bcs = 'application/x-bcs'

function readAt (
  target: string,
  { accept, body, method = 'GET' }: TestRequest & { accept?: string | undefined } = {}
): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(`no read at ${target}`)
  return readRequest(match, { method, accept, contentType: 'application/json', body: Buffer.from(body ?? '') })
}

function tier (): {
  memory: MemoryTier,
  invalidator: LocalInvalidator,
  store: (key: string, validity?: Entry['validity']) => Entry
} {
  const memory = new MemoryTier(1e6, { wrote: () => {}, evicted: () => {} }, () => 0)
  const store = (key: string, validity?: Entry['validity']): Entry => {
    const entry = makeEntry({
      key,
      status: 200,
      contentType: 'application/json',
      body: Buffer.from(key),
      cursorAndGasHeaders: [],
      release: undefined,
      validity
    })
    memory.put(space, entry)
    return entry
  }
  return { memory, invalidator: new LocalInvalidator(memory), store }
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
  const keysIn = ([target, options]: [string, TestRequest]): string[] =>
    [undefined, bcs].flatMap(accept => {
      const keys = keysOf(readAt(target, { ...options, accept }), space)
      return [keys.value, keys.text, microCacheKeyOf(keys)]
    })
  for (const read of reads) {
    const { memory, invalidator, store } = tier()
    for (const key of new Set(reads.flatMap(keysIn))) store(key)
    for (const accept of [undefined, bcs]) {
      const what = invalidationOfRead(readAt(read[0], { ...read[1], accept }), space)
      t.same(keysIn(read).filter(key => !what.keys.includes(key)), [], read[0])
      t.same(what.intervals, [])
      await invalidator.invalidate(space, what)
    }
    for (const other of reads) {
      for (const key of keysIn(other)) {
        t.equal(memory.getByKey(key) !== undefined, other !== read, `${key} when ${read[0]} is purged`)
      }
    }
  }
})

t.test('a fetch detects whether a purge that came since covers its entry or its read', async t => {
  const { memory, invalidator, store } = tier()
  const [c, d] = [store('c'), store('d')]
  const block = store('4.2 json blocks 1', { family: '4.2 json blocks', first: 10n, last: 19n })
  const purgeBlocks = async (first: bigint): Promise<void> => {
    await invalidator.invalidate(space, { keys: ['c'], intervals: [{ family: '4.2 json blocks', first, last: first }] })
  }
  const before = invalidator.count
  t.notOk(invalidator.hasInvalidated(d, before), 'no purge since')
  await purgeBlocks(20n)
  t.ok(invalidator.hasInvalidated(c, before))
  t.notOk(invalidator.hasInvalidated(d, before), 'a purge of another key')
  t.ok(invalidator.hasInvalidated(d, before, 'c'), 'a purge of the requested key')
  t.notOk(invalidator.hasInvalidated(block, before), 'a purge of the next version')
  await purgeBlocks(19n)
  t.ok(invalidator.hasInvalidated(block, before))
  const late = invalidator.count
  await invalidator.invalidateAll(space)
  t.equal(memory.entries, 0)
  t.ok(invalidator.hasInvalidated(d, late), 'a purge of all covers every key')
  const later = invalidator.count
  for (let nth = 0; nth < 256; nth++) await purgeBlocks(20n)
  t.notOk(invalidator.hasInvalidated(d, later))
  await purgeBlocks(20n)
  t.ok(invalidator.hasInvalidated(d, later), 'purges too far back count as purges of all')
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
        context.invalidator.invalidate(space, invalidationOfRead(readOfTarget(target), context.tracker.space ?? space))
          .catch(
            t.fail
          )
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
