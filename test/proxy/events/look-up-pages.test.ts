import t, { type Test } from 'tap'
import { computeEtag } from '../../../src/cache/entry.js'
import { type LowerTier } from '../../../src/cache/tier.js'
import { noClient, pinToCurrentChain } from '../../../src/proxy/pinned-read.js'
import { serveFromMemory, serveRead } from '../../../src/proxy/serve-read.js'
import { ParsedRequest } from '../../../src/proxy/parsed-request.js'
import { cacheStatusOf, type Outcome } from '../../../src/proxy/outcomes.js'
import { sendRequest } from '../../support/client.js'
import {
  startEventUpstream,
  type EventUpstream,
  type EventUpstreamState,
  handlePath,
  streamPath
} from '../../support/event-upstream.js'
import { contextAt, readOfTarget } from '../../support/proxy-context.js'
import { storedEntryOf } from '../../support/redis-tier.js'
import { memoryHitStatus, cacheStatusHeader, storedMissStatus } from '../../support/cache-status.js'
import { until } from '../../support/until.js'
import { type TestVarve, varveAt } from '../../support/varve.js'

const pruned = 'varve; hit; detail=pruned'
const because = (reason: string): string => `varve; fwd=uri-miss; fwd-status=200; detail=${reason}`
// Latest read of another endpoint, which moves the position on.
const modules = '/v1/accounts/0x42/modules'

async function at (
  t: Test,
  change: Partial<EventUpstreamState> = {},
  settings: Parameters<typeof varveAt>[2] = {}
): Promise<{ upstream: EventUpstream, varve: TestVarve }> {
  const upstream = await startEventUpstream(t, change)
  const varve = await varveAt(t, upstream.url, settings)
  return { upstream, varve }
}

const pageAt = (path: string, start: number, limit: number): string => `${path}?start=${start}&limit=${limit}`

/** Reads a page, compares it with the upstream, and returns its cache status. */
async function statusOf (
  t: Test,
  { upstream, varve }: { upstream: EventUpstream, varve: TestVarve },
  path: string,
  start: number,
  limit: number
): Promise<string> {
  const target = pageAt(path, start, limit)
  const got = await varve.get(target)
  const direct = await sendRequest(upstream.url, target)
  upstream.requests.pop()
  t.equal(got.status, direct.status, target)
  t.ok(got.bytes.equals(direct.bytes), `${target} matches the upstream byte for byte`)
  if (got.status === 200) {
    t.equal(
      got.headers.etag,
      computeEtag('application/json; charset=utf-8', direct.bytes),
      'the tag of the upstream\'s bytes'
    )
  }
  return String(got.headers[cacheStatusHeader])
}

t.test('a page by creation number and by handle is one entry, whichever came first', async t => {
  for (const paths of [[handlePath, streamPath(7)], [streamPath(7), handlePath]] as const) {
    const all = await at(t)
    t.equal(await statusOf(t, all, paths[0], 10, 5), storedMissStatus)
    // The stream behind a handle is unknown before the first page by handle.
    if (paths[1] === handlePath) t.equal(await statusOf(t, all, handlePath, 400, 1), storedMissStatus)
    t.equal(await statusOf(t, all, paths[1], 10, 5), memoryHitStatus)
    t.equal(all.upstream.requests.length, paths[1] === handlePath ? 2 : 1)
    t.equal(await all.varve.metric('varve_cache_entries{tier="memory"}'), all.upstream.requests.length)
  }
})

t.test('a page is found by its own start and limit only, by both paths of its stream', async t => {
  const all = await at(t)
  const pages = [[0, 40], [40, 10], [45, 30], [200, 100]] as const
  for (const [start, limit] of pages) t.equal(await statusOf(t, all, handlePath, start, limit), storedMissStatus)
  for (const [start, limit] of pages) {
    for (const path of [handlePath, streamPath(7)]) t.equal(await statusOf(t, all, path, start, limit), memoryHitStatus)
  }
  t.equal(all.upstream.requests.length, pages.length)
  for (const [start, limit] of [[0, 75], [10, 5], [40, 9], [41, 9], [250, 50]] as const) {
    t.equal(
      await statusOf(t, all, handlePath, start, limit),
      storedMissStatus,
      `not assembled from other pages: ${start} ${limit}`
    )
  }
  t.equal(all.upstream.requests.length, pages.length + 5)
})

t.test('once a recreated handle was seen, no page of its old stream is served by handle', async t => {
  const all = await at(t)
  const { upstream, varve } = all
  for (const start of [0, 50]) t.equal(await statusOf(t, all, handlePath, start, 50), storedMissStatus)
  upstream.state.creation = 8
  t.equal(
    (await varve.get(pageAt(handlePath, 0, 50))).body,
    upstream.page(0, 50, 7),
    'no response has contained it yet'
  )
  t.equal(await statusOf(t, all, handlePath, 90, 20), storedMissStatus)
  for (const start of [0, 50]) {
    t.equal(await statusOf(t, all, handlePath, start, 50), storedMissStatus, 'of the new stream')
  }
  for (const start of [0, 50]) {
    t.equal(await statusOf(t, all, handlePath, start, 50), memoryHitStatus)
    t.equal(
      await statusOf(t, all, streamPath(7), start, 50),
      memoryHitStatus,
      'the old stream stays history by its number'
    )
  }
  const requestCount = upstream.requests.length
  upstream.state.creation = undefined
  t.match(await varve.get(pageAt(handlePath, 600, 5)), { status: 404 })
  t.match(await varve.get(pageAt(handlePath, 0, 50)), { status: 404 }, 'the handle is gone')
  t.equal(await statusOf(t, all, streamPath(8), 0, 50), memoryHitStatus)
  upstream.state.creation = 7
  t.equal(await statusOf(t, all, handlePath, 300, 1), storedMissStatus)
  t.equal(await statusOf(t, all, handlePath, 0, 50), memoryHitStatus, 'the first stream again')
  t.equal(upstream.requests.length, requestCount + 3)
})

t.test('newest and short pages show a handle\'s stream too, and a lagging upstream cannot undo it', async t => {
  const all = await at(t)
  const { upstream, varve } = all
  t.equal(await statusOf(t, all, handlePath, 0, 50), storedMissStatus)
  for (const [nth, query] of ['', '?limit=2', '?start=490'].entries()) {
    upstream.state.creation = 8 + nth
    await varve.get(handlePath + query)
    t.equal(await statusOf(t, all, handlePath, 0, 50), storedMissStatus, query)
    // Repeats, so that a memoised response is served too.
    for (let round = 0; round < 3; round++) t.equal(await statusOf(t, all, handlePath, 0, 50), memoryHitStatus)
  }
  upstream.state.head -= 100
  upstream.state.creation = 7
  t.equal(
    (await varve.get(pageAt(handlePath, 100, 5))).body,
    upstream.page(100, 5, 7),
    'a response is served as it came'
  )
  t.equal((await varve.get(pageAt(handlePath, 0, 50))).body, upstream.page(0, 50, 10))
  t.equal(await statusOf(t, all, streamPath(7), 100, 5), memoryHitStatus)
})

t.test('a handle mapping lives as long as a page of it, and pages by another path do not extend it', async t => {
  const upstream = await startEventUpstream(t)
  const clock = { ms: 0 }
  const { context } = contextAt(t, upstream.url, clock)
  await context.resolveChain()
  const get = async (target: string): Promise<Outcome> => await serveRead(context, readOfTarget(target))
  const wishes = { ifNoneMatch: undefined, acceptEncoding: undefined }
  t.equal(cacheStatusOf(await get(pageAt(handlePath, 0, 5))), storedMissStatus)
  clock.ms = context.settings.eventsTtlMs / 2
  t.equal(cacheStatusOf(await get(pageAt(streamPath(7), 50, 5))), storedMissStatus)
  const variantEntry = new ParsedRequest(readOfTarget(pageAt(handlePath, 50, 5)))
  const hit = serveFromMemory(context, variantEntry)
  const response = { status: 200, rawHeaders: [], body: undefined }
  if (hit !== undefined) variantEntry.memoise(context, hit, wishes, response)
  t.equal(variantEntry.getMemo(context, wishes), response, 'memoised')
  upstream.state.creation = 8
  clock.ms = context.settings.eventsTtlMs + 1
  t.equal(variantEntry.getMemo(context, wishes), undefined)
  t.equal(cacheStatusOf(await get(pageAt(streamPath(7), 50, 5))), memoryHitStatus)
  const after = await get(pageAt(handlePath, 50, 5))
  t.equal(cacheStatusOf(after), storedMissStatus)
  t.equal(after.name === 'miss' && String(after.fetched.response.body), upstream.page(50, 5, 8))
})

t.test('a page found in a lower tier is fetched if its path has lost its stream meanwhile', async t => {
  const upstream = await startEventUpstream(t)
  const { context } = contextAt(t, upstream.url)
  await context.resolveChain()
  await serveRead(context, readOfTarget(pageAt(handlePath, 0, 5)))
  const read = readOfTarget(pageAt(handlePath, 50, 5))
  const { eventsFamily = '' } = await pinToCurrentChain(context, read, noClient)
  const tier: LowerTier = {
    name: 'redis',
    warnings: [],
    get: async () => {
      context.streamsByHandle.remove(eventsFamily)
      return { stored: storedEntryOf('page', '[]'), ttlMs: 1000 }
    },
    put: () => {},
    status: { state: 'up' },
    invalidate: () => false,
    dropPending: () => {},
    close: async () => {}
  }
  const outcome = await serveRead({ ...context, lowerTiers: [tier] }, read)
  t.equal(cacheStatusOf(outcome), storedMissStatus)
  t.equal(outcome.name === 'miss' && String(outcome.fetched.response.body), upstream.page(50, 5))
})

t.test('a page is pruned by its first event on both paths, and then served as the operator chose', async t => {
  for (const serveCached of [true, false]) {
    const all = await at(t, {}, { pruned: { serveCached } })
    const { upstream, varve } = all
    for (const start of [39, 40]) t.equal(await statusOf(t, all, handlePath, start, 50), storedMissStatus)
    upstream.state.oldest = upstream.state.versionOf(40)
    await varve.get(modules)
    t.equal(await statusOf(t, all, handlePath, 40, 50), memoryHitStatus, 'its first event is the oldest that is left')
    const got = await varve.get(pageAt(handlePath, 39, 50))
    t.match(
      got,
      serveCached
        ? { status: 200, body: upstream.page(39, 50), headers: { [cacheStatusHeader]: pruned } }
        : { status: 410 }
    )
    t.equal(
      await varve.metric('varve_pruned_distance_versions_sum{endpoint="account_events"}'),
      serveCached ? 2 : undefined
    )
    t.equal((await varve.get(pageAt(streamPath(7), 39, 50))).status, serveCached ? 200 : 410)
  }
})

t.test('a page of an old release is read again by both paths, or served if that fails', async t => {
  const all = await at(t, {}, { head: { pollMs: 50 } })
  const { upstream, varve } = all
  for (const start of [0, 50, 100]) t.equal(await statusOf(t, all, handlePath, start, 50), storedMissStatus)
  upstream.state.release = 'bbbb'
  await until(
    async () => (await varve.get(pageAt(handlePath, 0, 50))).headers[cacheStatusHeader] === storedMissStatus,
    'the old release runs no more'
  )
  t.equal(await statusOf(t, all, streamPath(7), 50, 50), storedMissStatus)
  t.equal(await statusOf(t, all, handlePath, 50, 50), memoryHitStatus)
  upstream.state.max = 10
  const old = await varve.get(pageAt(streamPath(7), 100, 50))
  t.match(old, { status: 200, headers: { [cacheStatusHeader]: memoryHitStatus } })
  t.match(old.body, /"by":"aaaa"/)
})

t.test('a page with an unreadable guid is stored for its handle path, and for no creation number', async t => {
  const all = await at(t, { account: 'one' })
  t.equal(await statusOf(t, all, handlePath, 0, 50), storedMissStatus)
  t.equal(await statusOf(t, all, handlePath, 0, 50), memoryHitStatus)
  for (let round = 0; round < 2; round++) t.equal(await statusOf(t, all, streamPath(7), 0, 50), because('unreadable'))
})

t.test('a response by creation number with another stream is not stored, and maps nothing', async t => {
  const all = await at(t, { account: '0x2' })
  for (let round = 0; round < 2; round++) t.equal(await statusOf(t, all, streamPath(7), 0, 50), because('unreadable'))
  t.equal(await statusOf(t, all, streamPath(7), 480, 50), because('unreadable'))
  t.equal(await statusOf(t, all, streamPath(7), 600, 50), because('empty_page'))
  t.equal(await statusOf(t, all, handlePath, 0, 50), storedMissStatus)
})

t.test('a page that the audit finds different invalidates every page that shares an event', async t => {
  const { upstream, varve } = await at(t, {}, { audit: { share: 1 } })
  for (const [start, limit] of [[0, 50], [50, 50], [30, 40], [110, 5]] as const) {
    await varve.get(pageAt(handlePath, start, limit))
  }
  const audited = async (result: string): Promise<number> =>
    await varve.metric(`varve_audit_total{result="${result}"}`) ?? 0
  // A share of one audits one of two or three hits here.
  const hitUntil = async (target: string, result: string): Promise<void> => {
    await until(async () => {
      await varve.get(target)
      return await audited(result) > 0
    }, result)
  }
  await hitUntil(pageAt(streamPath(7), 30, 40), 'equal')
  upstream.state.versionOf = sequence => 1001 + sequence * 2
  await hitUntil(pageAt(streamPath(7), 30, 40), 'different')
  const requestCount = upstream.requests.length
  for (const start of [0, 50]) t.equal((await varve.get(pageAt(handlePath, start, 50))).body, upstream.page(start, 50))
  t.ok(upstream.requests.length >= requestCount + 2)
  t.equal(
    (await varve.get(pageAt(handlePath, 110, 5))).headers[cacheStatusHeader],
    memoryHitStatus,
    'a page without common events stays'
  )
})
