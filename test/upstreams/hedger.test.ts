import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type InspectResponse } from '../../src/upstreams/monitored-attempts.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { type HedgeOptions, Hedger, HedgeBucket } from '../../src/upstreams/hedger.js'
import { Quarantine } from '../../src/chain/quarantine.js'
import { Upstream } from '../../src/upstreams/upstream.js'
import { UpstreamClient, type UpstreamClientOptions } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamRequirements } from '../../src/upstreams/ranking.js'
import { connectToEcho, blockLoop } from '../support/blocked-loop.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const upstreamRequest: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const fine: InspectResponse = () => ({ flaw: undefined })
const timeoutMs = 3000

type Script = (response: ServerResponse, request: IncomingMessage) => void

const respondWith = (body: string, headers: Record<string, string> = {}): Script => response => {
  respondOk(response, body, headers)
}
const hang: Script = () => {}
const respondStatus = (status: number): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...stamps() }).end(`{"status":${status}}`)
}
const late = (ms: number, script: Script): Script => (response, request) => {
  setTimeout(() => {
    script(response, request)
  }, ms)
}

interface TestPool {
  readonly pool: UpstreamPool
  readonly upstreams: readonly Upstream[]
  /** Script of each upstream for data requests from now on. */
  readonly scripts: Script[]
  /** Results of hedges. */
  readonly results: string[]
  /** Requests to each upstream since the last call. */
  takeRequestCounts(): number[]
  /** Chain verifications of each upstream. */
  readonly compared: number[]
  fetch(route?: Partial<UpstreamRequirements>, inspect?: InspectResponse): Promise<string>
}

/** Creates verified upstreams that have each responded once; the first ranks first. */
async function startPool (
  t: Test,
  scripts: Script[],
  hedge: Partial<HedgeOptions> = {},
  change: Partial<UpstreamClientOptions> = {}
): Promise<TestPool> {
  const compared = scripts.map(() => 0)
  const results: string[] = []
  const current: Script[] = scripts.map(() => respondWith('["start"]'))
  const stubs = await Promise.all(scripts.map(async (_, at) =>
    await startStubUpstream(t, (request, response) => {
      current[at]?.(response, request)
    })
  ))
  const upstreams = stubs.map(({ url }, at) => {
    const client = new UpstreamClient({
      name: `n${at + 1}`,
      url,
      headers: {},
      timeoutMs,
      maxConcurrent: 8,
      caFile: null,
      maxBufferedBytes: 10_000,
      onConnectionLost: () => {
        quarantine.recordConnectionLost()
      },
      now: () => performance.now(),
      ...change
    }, { fetched: () => {} })
    t.teardown(async () => {
      await client.close()
    })
    const verifyChain = async (): Promise<undefined> => {
      compared[at] = (compared[at] ?? 0) + 1
    }
    const now = (): number => performance.now()
    const verification = { verifyChain, isOffChain: () => false, isSameChain: async () => true, hasPeers: () => true }
    const quarantine = new Quarantine(client, verification, now)
    return new Upstream(client, quarantine, now)
  })
  const hedges = new Hedger({ share: 0.05, burst: 10, afterMs: 20, ...hedge }, {
    hedged: result => {
      results.push(result)
    }
  })
  const pool = new UpstreamPool({
    wallClockMs: () => Date.now(),
    onOldest: () => {},
    onAllQuarantined: async () => {}
  })
  pool.replaceUpstreams(upstreams, hedges)
  for (const upstream of upstreams) {
    await upstream.fetch(upstreamRequest)
    upstream.health.recordSuccess()
    // Latencies far apart rank the first upstream first on a busy machine too.
    for (let nth = 0; nth < 40; nth++) upstream.health.recordLatency(1 + 200 * upstreams.indexOf(upstream))
  }
  scripts.forEach((script, at) => {
    current[at] = script
  })
  const takeRequestCounts = (): number[] => stubs.map(({ requests }) => requests.splice(0).length)
  takeRequestCounts()
  const fetch = async (route: Partial<UpstreamRequirements> = {}, inspect = fine): Promise<string> => {
    try {
      const { response: { status, body } } = await pool.fetch(upstreamRequest, { ...anything, ...route }, inspect)
      return `${status} ${body.toString()}`
    } catch (error) {
      return (error as Error).message
    }
  }
  return { pool, upstreams, scripts: current, results, takeRequestCounts, compared, fetch }
}

t.test('a slow upstream is hedged with another one, and the first response wins', async t => {
  const { fetch, takeRequestCounts, results } = await startPool(t, [hang, respondWith('["second"]')])
  const began = performance.now()
  t.equal(await fetch(), '200 ["second"]')
  t.ok(performance.now() - began < timeoutMs / 2, 'before the first timed out')
  t.same([takeRequestCounts(), results], [[1, 1], ['won']])
  const slow = await startPool(t, [late(300, respondWith('["first"]')), hang])
  t.equal(await slow.fetch(), '200 ["first"]')
  t.same([slow.takeRequestCounts(), slow.results], [[1, 1], ['lost']])
  const soon = await startPool(t, [respondWith('["first"]'), hang], { afterMs: timeoutMs / 2 })
  for (let nth = 0; nth < 3; nth++) t.equal(await soon.fetch(), '200 ["first"]')
  t.same([soon.takeRequestCounts(), soon.results], [[3, 0], []], 'a fast upstream is not hedged')
})

t.test('the losing fetch of a hedge is cancelled, and its upstream stays verified and healthy', async t => {
  let closed: Promise<unknown> | undefined
  const { fetch, upstreams, compared, scripts } = await startPool(t, [(_request, response) => {
    closed = once(response, 'close')
  }, respondWith('["second"]')])
  scripts[0] = response => {
    closed = once(response, 'close')
  }
  t.equal(await fetch(), '200 ["second"]')
  await closed
  const [first] = upstreams
  await until(() => first?.client.limiter.inFlight === 0, 'the slot of the first upstream is free')
  t.same([first?.isVerified, first?.isUp, first?.health.lastFailure, first?.client.lastFetchSucceeded], [
    true,
    true,
    undefined,
    true
  ])
  t.ok((first?.health.latencyMs ?? 0) > 2, 'the time waited counts as latency')
  scripts[0] = respondWith('["first"]')
  await first?.fetch(upstreamRequest)
  t.same(compared, [1, 1])
})

t.test('an upstream that times out is verified again, since it may have been restarted', async t => {
  const { upstreams: [first], compared, scripts } = await startPool(t, [hang, hang])
  await t.rejects(async () => await first?.fetch(upstreamRequest, 20))
  scripts[0] = respondWith('[]')
  await first?.fetch(upstreamRequest)
  t.same(compared, [2, 1])
})

t.test('a flawed response does not win a hedge: the other is awaited, and each is fetched once', async t => {
  const rejectBehind: InspectResponse = ({ body }) => ({
    flaw: body.toString() === '["behind"]' ? 'lagging' : undefined
  })
  const better = await startPool(t, [late(300, respondWith('["first"]')), respondWith('["behind"]')])
  t.equal(await better.fetch({}, rejectBehind), '200 ["first"]')
  t.same([better.takeRequestCounts(), better.results], [[1, 1], ['lost']])
  const worse = await startPool(t, [late(300, respondWith('["behind"]')), respondStatus(500)])
  t.equal(await worse.fetch({}, rejectBehind), '200 ["behind"]', 'a flawed response is used if there is no better one')
  t.same([worse.takeRequestCounts(), worse.results], [[1, 1], ['failed']])
  const broken = await startPool(t, [late(300, respondStatus(503)), late(300, respondWith('["second"]')), hang])
  t.equal(await broken.fetch(), '200 ["second"]')
  t.same([broken.takeRequestCounts(), broken.results], [[1, 1, 0], ['won']])
  const third = await startPool(t, [late(300, respondStatus(503)), respondStatus(503), respondWith('["third"]')])
  t.equal(await third.fetch(), '200 ["third"]')
  t.same(third.takeRequestCounts(), [1, 1, 1])
})

t.test('of two responses at the same time one wins, and the other\'s body is discarded', async t => {
  const hedges = new Hedger({ share: 1, burst: 1, afterMs: 1 }, { hedged: () => {} })
  const makeUpstream = (): Upstream =>
    ({ health: { readLatency: {} }, client: { limiter: { isBusy: () => false } } }) as never
  const [first, second] = [makeUpstream(), makeUpstream()]
  const discarded: Upstream[] = []
  const resolves: Array<() => void> = []
  const running = hedges.run(first, () => second, async upstream => {
    const came = new Promise<void>(resolve => {
      resolves.push(resolve)
    })
    if (resolves.length === 2) {
      setImmediate(() => {
        for (const resolve of resolves) resolve()
      })
    }
    await came
    return {
      response: {
        rest: {
          destroy: () => {
            discarded.push(upstream)
          }
        }
      },
      flaw: undefined
    } as never
  })
  const came = await running
  t.equal(came.length, 1)
  t.same(discarded.map(upstream => upstream === first ? 'first' : 'second'), [
    came[0]?.upstream === first ? 'second' : 'first'
  ])
})

t.test('a hedge goes only to an upstream that is up, verified and has the versions needed', async t => {
  const cases: Array<[name: string, route: Partial<UpstreamRequirements>, change: (second: Upstream) => void]> = [
    ['healthy', { version: 500n }, () => {}],
    ['without the version', { version: 5n }, () => {}],
    ['behind', { minVersion: 1001n }, () => {}],
    ['down', {}, ({ health }) => {
      health.recordFailure('refused', true)
    }],
    ['backing_off', {}, ({ health }) => {
      health.backOff(60_000)
    }],
    ['unverified', {}, second => {
      second.markUnverified()
    }],
    ['of a shorter history', { events: 'from' }, ({ windowTracker }) => {
      const { stamped } = windowTracker
      if (stamped !== undefined) {
        windowTracker.learn({
          ...stamped,
          position: { ...stamped.position, oldest: { ...stamped.position.oldest, version: 100n } }
        })
      }
    }]
  ]
  for (const [name, route, change] of cases) {
    const isCandidate = name === 'healthy'
    const { fetch, takeRequestCounts, upstreams: [, second] } = await startPool(t, [
      isCandidate ? hang : late(300, respondWith('["first"]')),
      respondWith('["second"]')
    ])
    if (second !== undefined) change(second)
    t.equal(await fetch(route), isCandidate ? '200 ["second"]' : '200 ["first"]', name)
    t.same(takeRequestCounts(), [1, isCandidate ? 1 : 0], name)
  }
})

t.test('a busy upstream is neither hedged nor used as a hedge', async t => {
  for (const at of [0, 1]) {
    const { fetch, takeRequestCounts, upstreams } = await startPool(
      t,
      [late(300, respondWith('["first"]')), respondWith('["second"]')],
      {},
      {
        maxConcurrent: 4
      }
    )
    const slots = [0, 1].map(() => upstreams[at]?.client.limiter.tryAcquire(false))
    t.equal(await fetch(), '200 ["first"]')
    t.same(takeRequestCounts(), [1, 0])
    for (const slot of slots) slot?.release()
  }
})

t.test('hedges stay within their share of reads plus the burst, and a hanging read gets new budget', async t => {
  const bucket = new HedgeBucket(0.25, 2)
  t.same([bucket.take(), bucket.take(), bucket.take()], [true, true, false])
  for (let nth = 0; nth < 4; nth++) bucket.earn()
  t.same([bucket.take(), bucket.take()], [true, false])
  for (let nth = 0; nth < 100; nth++) bucket.earn()
  t.same(
    [bucket.take(), bucket.take(), bucket.take()],
    [true, true, false],
    'unused budget never exceeds the burst'
  )

  const testPool = await startPool(t, [hang, respondWith('["second"]')], { share: 0.5, burst: 1, afterMs: 30 })
  const { fetch, takeRequestCounts, results, scripts, upstreams: [, second] } = testPool
  for (let nth = 0; nth < 40; nth++) second?.health.recordLatency(60)
  t.equal(await fetch(), '200 ["second"]')
  takeRequestCounts()
  const hanging = fetch()
  await until(() => takeRequestCounts()[0] === 1, 'the first upstream got the request')
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  t.same([takeRequestCounts(), results], [[0, 0], ['won']], 'no hedge is granted')
  scripts[0] = respondWith('["first"]')
  for (let nth = 0; nth < 2; nth++) await fetch()
  t.equal(await hanging, '200 ["second"]')
})

t.test('a read slower than 95 % of its upstream\'s reads is hedged, once enough are measured', async t => {
  const { fetch, results, scripts, upstreams: [first] } = await startPool(t, [
    late(300, respondWith('["first"]')),
    respondWith('["second"]')
  ], { afterMs: 60_000 })
  t.equal(await fetch(), '200 ["first"]')
  scripts[0] = hang
  for (let nth = 0; nth < 60; nth++) first?.health.recordLatency(1, true)
  t.equal(await fetch(), '200 ["second"]')
  t.same(results, ['won'])
})

t.test('a response that arrived while varve\'s event loop was blocked causes no hedge', async t => {
  const { upstreams: [first] } = await startPool(t, [hang])
  if (first === undefined) throw new Error('there is no upstream')
  const socket = await connectToEcho(t)
  const results: string[] = []
  const hedges = new Hedger({ share: 1, burst: 10, afterMs: 20 }, {
    hedged: result => {
      results.push(result)
    }
  })
  const tried = hedges.run(first, () => first, async () => {
    socket.write('request')
    await once(socket, 'data')
    throw new Error('a response like any other')
  })
  blockLoop(300)
  t.same([(await tried).length, results], [1, []])
})

t.test('a forwarded request is never hedged', async t => {
  const { pool, takeRequestCounts } = await startPool(t, [
    late(300, respondWith('["first"]')),
    respondWith('["second"]')
  ])
  const { response: forwarded } = await pool.forward(upstreamRequest, anything, fine, new AbortController().signal)
  forwarded.rest?.destroy()
  t.same(takeRequestCounts(), [1, 0])
})
