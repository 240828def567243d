import t, { type Test } from 'tap'
import { Space } from '../../src/chain/space.js'
import { type Entry } from '../../src/cache/entry.js'
import { serveFromMemory, serveRead } from '../../src/proxy/serve-read.js'
import { ParsedRequest } from '../../src/proxy/parsed-request.js'
import { type Hit } from '../../src/proxy/outcomes.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { type ClientResponse, ResponseBuilder, type ResponsePreferences } from '../../src/proxy/response-builder.js'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { space } from '../support/redis-tier.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=500'
const plain: ResponsePreferences = { ifNoneMatch: undefined, acceptEncoding: undefined }

interface Memoised {
  readonly parts: ProxyParts
  readonly variantEntry: ParsedRequest
  readonly clientResponse: ClientResponse
  readonly clock: { ms: number }
  /** Returns the memoised response, if any. */
  again(wishes?: ResponsePreferences): ClientResponse | undefined
}

/** Serves a read from the cache in a known request variant. */
async function memoised (
  t: Test,
  { target = modules, wishes = plain, body = '[]', stamped = stamps() } = {}
): Promise<Memoised> {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, body, stamped)
  })
  const clock = { ms: 1000 }
  const { context } = contextAt(t, stub.url, clock)
  await serveRead(context, readOfTarget(target))
  const variantEntry = new ParsedRequest(readOfTarget(target))
  const hit = serveFromMemory(context, variantEntry) as Hit
  const clientResponse = new ResponseBuilder(context, 'revalidate').respond(variantEntry.read, hit, wishes)
  variantEntry.memoise(context, hit, wishes, clientResponse)
  return {
    parts: context,
    variantEntry,
    clientResponse,
    clock,
    again: (requested = wishes) => variantEntry.getMemo(context, requested)
  }
}

t.test('a known request gets nothing from memory before the chain is known', async t => {
  const stub = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]')
  })
  const { context } = contextAt(t, stub.url)
  t.equal(serveFromMemory(context, new ParsedRequest(readOfTarget(modules))), undefined)
})

t.test('a memo is dropped when anything that it was made of changes', async t => {
  const changes: [what: string, change: (memoised: Memoised) => void][] = [
    ['the cache, by another entry', ({ parts }) => {
      parts.memory.put(space, { ...entryOf(parts), key: 'other' })
    }],
    ['the cache, by an invalidation', ({ parts }) => {
      parts.memory.drop(space, { keys: [entryOf(parts).key], intervals: [] })
    }],
    ['the position', ({ parts }) => {
      headTo(parts, 2000n)
    }],
    ['the space', ({ parts: { tracker } }) => {
      tracker.setSpace(Space.begin(4), undefined, true)
    }],
    ['the releases that live upstreams run', ({ parts }) => {
      Object.assign(parts.releases, { isRetiredRelease: () => true })
    }]
  ]
  for (const [what, change] of changes) {
    const all = await memoised(t)
    t.equal(all.again(), all.clientResponse, 'it is served again')
    for (const wishes of [{ acceptEncoding: 'gzip' }, { acceptEncoding: '' }, { ifNoneMatch: '"x"' }]) {
      t.equal(all.again({ ...plain, ...wishes }), undefined, 'but for no other coding or condition')
    }
    change(all)
    t.equal(all.again(), undefined, what)
  }
})

t.test('a conditional, pruned or not yet coded response is never memoised', async t => {
  t.equal((await memoised(t, { wishes: { ...plain, ifNoneMatch: '*' } })).again(plain), undefined)
  const long = JSON.stringify('x'.repeat(1000))
  const { parts, again } = await memoised(t, { wishes: { ...plain, acceptEncoding: 'gzip' }, body: long })
  t.equal(again(), undefined, 'its coded form is being made')
  await parts.compressor.waitUntilIdle()
  t.equal(
    (await memoised(t, { wishes: { ...plain, acceptEncoding: `identity, ${'z'.repeat(100)}` } })).again(),
    undefined,
    'nor is a response to a long Accept-Encoding'
  )
  const pruned = await memoised(t)
  const { stamped } = pruned.parts.tracker
  if (stamped !== undefined) {
    pruned.parts.tracker.learn({ ...stamped.position, oldest: { version: 900n, blockHeight: 9n } }, stamped.family)
  }
  const hit = serveFromMemory(pruned.parts, pruned.variantEntry) as Hit
  t.equal(hit.kind, 'pruned')
  pruned.variantEntry.memoise(pruned.parts, hit, plain, pruned.clientResponse)
  t.equal(pruned.again(), undefined, 'each pruned hit is counted')
})

t.test('a memo of an event page lives as long as the page', async t => {
  const events = JSON.stringify([{
    version: '500',
    guid: { creation_number: '1', account_address: '0x1' },
    sequence_number: '3',
    type: 'x',
    data: {}
  }])
  const { again, clock, clientResponse } = await memoised(t, {
    target: '/v1/accounts/0x1/events/0x1::a::B/c?start=3&limit=1',
    body: events
  })
  clock.ms += 3_599_999
  t.equal(again(), clientResponse)
  clock.ms += 1
  t.equal(again(), undefined)
})

t.test('at most ten thousand memos exist, and none outlives its entry', async t => {
  const { parts, variantEntry, clientResponse } = await memoised(t)
  const hit = serveFromMemory(parts, variantEntry) as Hit
  for (let at = 0; at < 25_000; at++) {
    new ParsedRequest(variantEntry.read).memoise(parts, hit, plain, clientResponse)
  }
  t.ok(parts.memory.memoHolders.size <= 10_000)
  for (const position of [2000n, 3000n]) {
    headTo(parts, position)
    variantEntry.memoise(parts, hit, plain, clientResponse)
    t.equal(variantEntry.getMemo(parts, plain), clientResponse, 'existing memos are updated')
  }
  parts.memory.clear()
  t.equal(parts.memory.memoHolders.size, 0)
})

function headTo ({ tracker }: ProxyParts, version: bigint): void {
  const { stamped } = tracker
  if (stamped !== undefined) {
    tracker.learnProven({
      ...stamped,
      position: {
        ...stamped.position,
        head: { ...stamped.position.head, version, timestampUsec: 10n ** 15n * version }
      }
    })
  }
}

function entryOf (parts: ProxyParts): Entry {
  const entry = parts.memory.getByKey(
    `${parts.tracker.space?.name} json ` +
      '/v1/accounts/0x0000000000000000000000000000000000000000000000000000000000000001/modules?ledger_version=500'
  )
  if (entry === undefined) throw new Error('not cacheable')
  return entry
}
