import { once } from 'node:events'
import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type InspectResponse } from '../../src/upstreams/attempt-runner.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { HedgeBucket } from '../../src/upstreams/hedge-bucket.js'
import { type HedgeOptions, Hedger } from '../../src/upstreams/hedger.js'
import { Upstream } from '../../src/upstreams/upstream.js'
import { UpstreamClient, type UpstreamClientOptions } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamRequirements } from '../../src/upstreams/ranking.js'
import { connectToEcho, blockLoop } from '../support/blocked-loop.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'

const question: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const fine: InspectResponse = () => undefined
const timeoutMs = 3000

type Script = (response: ServerResponse, request: IncomingMessage) => void

const answers = (body: string, headers: Record<string, string> = {}): Script => response => {
  respondOk(response, body, headers)
}
const hangs: Script = () => {}
const says = (status: number): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...stamps() }).end(`{"status":${status}}`)
}
const late = (ms: number, script: Script): Script => (response, request) => {
  setTimeout(() => {
    script(response, request)
  }, ms)
}

interface Nodes {
  readonly fleet: UpstreamPool
  readonly members: readonly Upstream[]
  /** Script of each upstream for data requests from now on. */
  readonly scripts: Script[]
  /** Results of hedges. */
  readonly told: string[]
  /** Requests to each upstream since the last call. */
  asked(): number[]
  /** Chain verifications of each upstream. */
  readonly compared: number[]
  ask(route?: Partial<UpstreamRequirements>, look?: InspectResponse): Promise<string>
}

/** Creates verified upstreams that have each responded once; the first ranks first. */
async function nodesOf (
  t: Test,
  scripts: Script[],
  hedge: Partial<HedgeOptions> = {},
  change: Partial<UpstreamClientOptions> = {}
): Promise<Nodes> {
  const compared = scripts.map(() => 0)
  const told: string[] = []
  const current: Script[] = scripts.map(() => answers('["start"]'))
  const stubs = await Promise.all(scripts.map(async (_, at) =>
    await startStubUpstream(t, (request, response) => {
      current[at]?.(response, request)
    })
  ))
  const members = stubs.map(({ url }, at) => {
    const node = new UpstreamClient({
      name: `n${at + 1}`,
      url,
      headers: {},
      timeoutMs,
      maxConcurrent: 8,
      caFile: null,
      maxBufferedBytes: 10_000,
      onConnectionLost: () => {
        member.recordConnectionLost()
      },
      now: () => performance.now(),
      ...change
    }, { fetched: () => {} })
    t.teardown(async () => {
      await node.close()
    })
    const verifyChain = async (): Promise<undefined> => {
      compared[at] = (compared[at] ?? 0) + 1
    }
    const member = new Upstream(node, {
      verifyChain,
      isOffChain: () => false,
      isSameChain: async () => true,
      hasPeers: () => true
    }, () => performance.now())
    return member
  })
  const hedges = new Hedger({ share: 0.05, burst: 10, afterMs: 20, ...hedge }, {
    hedged: result => {
      told.push(result)
    }
  })
  const fleet = new UpstreamPool({
    wallClockMs: () => Date.now(),
    onOldest: () => {},
    onAllQuarantined: async () => {}
  })
  fleet.replaceUpstreams(members, hedges)
  for (const member of members) {
    await member.fetch(question)
    member.health.recordSuccess()
    // Latencies far apart rank the first upstream first on a busy machine too.
    for (let nth = 0; nth < 40; nth++) member.health.recordLatency(1 + 200 * members.indexOf(member))
  }
  scripts.forEach((script, at) => {
    current[at] = script
  })
  const asked = (): number[] => stubs.map(({ requests }) => requests.splice(0).length)
  asked()
  const ask = async (route: Partial<UpstreamRequirements> = {}, look = fine): Promise<string> => {
    try {
      const { status, body } = await fleet.fetch(question, { ...anything, ...route }, look)
      return `${status} ${body.toString()}`
    } catch (error) {
      return (error as Error).message
    }
  }
  return { fleet, members, scripts: current, told, asked, compared, ask }
}

t.test('a slow upstream is hedged with another one, and the first response wins', async t => {
  const { ask, asked, told } = await nodesOf(t, [hangs, answers('["second"]')])
  const began = performance.now()
  t.equal(await ask(), '200 ["second"]')
  t.ok(performance.now() - began < timeoutMs / 2, 'before the first timed out')
  t.same([asked(), told], [[1, 1], ['won']])
  const slow = await nodesOf(t, [late(300, answers('["first"]')), hangs])
  t.equal(await slow.ask(), '200 ["first"]')
  t.same([slow.asked(), slow.told], [[1, 1], ['lost']])
  const soon = await nodesOf(t, [answers('["first"]'), hangs], { afterMs: timeoutMs / 2 })
  for (let nth = 0; nth < 3; nth++) t.equal(await soon.ask(), '200 ["first"]')
  t.same([soon.asked(), soon.told], [[3, 0], []], 'a fast upstream is not hedged')
})

t.test('the losing fetch of a hedge is cancelled, and its upstream stays verified and healthy', async t => {
  let closed: Promise<unknown> | undefined
  const { ask, members, compared, scripts } = await nodesOf(t, [(_request, response) => {
    closed = once(response, 'close')
  }, answers('["second"]')])
  scripts[0] = response => {
    closed = once(response, 'close')
  }
  t.equal(await ask(), '200 ["second"]')
  await closed
  const [first] = members
  await until(() => first?.client.budget.inFlight === 0, 'its turn is over')
  t.same([first?.isVerified, first?.isUp, first?.health.lastFailure, first?.client.lastFetchSucceeded], [
    true,
    true,
    undefined,
    true
  ])
  t.ok((first?.health.latencyMs ?? 0) > 2, 'the time waited counts as latency')
  scripts[0] = answers('["first"]')
  await first?.fetch(question)
  t.same(compared, [1, 1])
})

t.test('an upstream that times out is verified again, since it may have been restarted', async t => {
  const { members: [first], compared, scripts } = await nodesOf(t, [hangs, hangs])
  await t.rejects(async () => await first?.fetch(question, 20))
  scripts[0] = answers('[]')
  await first?.fetch(question)
  t.same(compared, [2, 1])
})

t.test('a flawed response does not win a hedge: the other is awaited, and each is fetched once', async t => {
  const behind: InspectResponse = ({ body }) => body.toString() === '["behind"]' ? 'lagging' : undefined
  const better = await nodesOf(t, [late(300, answers('["first"]')), answers('["behind"]')])
  t.equal(await better.ask({}, behind), '200 ["first"]')
  t.same([better.asked(), better.told], [[1, 1], ['lost']])
  const worse = await nodesOf(t, [late(300, answers('["behind"]')), says(500)])
  t.equal(await worse.ask({}, behind), '200 ["behind"]', 'a flawed response is used if there is no better one')
  t.same([worse.asked(), worse.told], [[1, 1], ['failed']])
  const broken = await nodesOf(t, [late(300, says(503)), late(300, answers('["second"]')), hangs])
  t.equal(await broken.ask(), '200 ["second"]')
  t.same([broken.asked(), broken.told], [[1, 1, 0], ['won']])
  const third = await nodesOf(t, [late(300, says(503)), says(503), answers('["third"]')])
  t.equal(await third.ask(), '200 ["third"]')
  t.same(third.asked(), [1, 1, 1])
})

t.test('of two responses at the same time one wins, and the other\'s body is discarded', async t => {
  const hedges = new Hedger({ share: 1, burst: 1, afterMs: 1 }, { hedged: () => {} })
  const memberOf = (): Upstream =>
    ({ health: { readLatency: {} }, client: { budget: { isBusy: () => false } } }) as never
  const [first, second] = [memberOf(), memberOf()]
  const gone: Upstream[] = []
  const resolves: Array<() => void> = []
  const asked = hedges.run(first, () => second, async member => {
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
            gone.push(member)
          }
        }
      },
      flaw: undefined
    } as never
  })
  const came = await asked
  t.equal(came.length, 1)
  t.same(gone.map(member => member === first ? 'first' : 'second'), [came[0]?.upstream === first ? 'second' : 'first'])
})

t.test('a hedge goes only to an upstream that is up, verified and has the versions needed', async t => {
  const cases: Array<[name: string, route: Partial<UpstreamRequirements>, change: (second: Upstream) => void]> = [
    ['well', { version: 500n }, () => {}],
    ['without the version', { version: 5n }, () => {}],
    ['behind', { minVersion: 1001n }, () => {}],
    ['down', {}, ({ health }) => {
      health.recordFailure('refused', true)
    }],
    ['backing_off', {}, ({ health }) => {
      health.backOff(60_000)
    }],
    ['in doubt', {}, second => {
      second.recordConnectionLost()
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
    const isWell = name === 'well'
    const { ask, asked, members: [, second] } = await nodesOf(t, [
      isWell ? hangs : late(300, answers('["first"]')),
      answers('["second"]')
    ])
    if (second !== undefined) change(second)
    t.equal(await ask(route), isWell ? '200 ["second"]' : '200 ["first"]', name)
    t.same(asked(), [1, isWell ? 1 : 0], name)
  }
})

t.test('a busy upstream is neither hedged nor used as a hedge', async t => {
  for (const at of [0, 1]) {
    const { ask, asked, members } = await nodesOf(t, [late(300, answers('["first"]')), answers('["second"]')], {}, {
      maxConcurrent: 4
    })
    const turns = [0, 1, 2].slice(at).map(() => members[at]?.client.budget.tryAcquire(false))
    t.equal(await ask(), '200 ["first"]')
    t.same(asked(), [1, 0])
    for (const turn of turns) turn?.release()
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

  const nodes = await nodesOf(t, [hangs, answers('["second"]')], { share: 0.5, burst: 1, afterMs: 30 })
  const { ask, asked, told, scripts, members: [, second] } = nodes
  for (let nth = 0; nth < 40; nth++) second?.health.recordLatency(60)
  t.equal(await ask(), '200 ["second"]')
  asked()
  const hanging = ask()
  await until(() => asked()[0] === 1, 'it hangs')
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  t.same([asked(), told], [[0, 0], ['won']], 'no hedge is granted')
  scripts[0] = answers('["first"]')
  for (let nth = 0; nth < 2; nth++) await ask()
  t.equal(await hanging, '200 ["second"]')
})

t.test('a read slower than 95 % of its upstream\'s reads is hedged, once enough are measured', async t => {
  const { ask, told, scripts, members: [first] } = await nodesOf(t, [
    late(300, answers('["first"]')),
    answers('["second"]')
  ], { afterMs: 60_000 })
  t.equal(await ask(), '200 ["first"]')
  scripts[0] = hangs
  for (let nth = 0; nth < 60; nth++) first?.health.recordLatency(1, true)
  t.equal(await ask(), '200 ["second"]')
  t.same(told, ['won'])
})

t.test('a response that arrived while varve\'s event loop was blocked causes no hedge', async t => {
  const { members: [first] } = await nodesOf(t, [hangs])
  if (first === undefined) throw new Error('there is no node')
  const socket = await connectToEcho(t)
  const told: string[] = []
  const hedges = new Hedger({ share: 1, burst: 10, afterMs: 20 }, {
    hedged: result => {
      told.push(result)
    }
  })
  const tried = hedges.run(first, () => first, async () => {
    socket.write('asked')
    await once(socket, 'data')
    throw new Error('an answer like any other')
  })
  blockLoop(300)
  t.same([(await tried).length, told], [1, []])
})

t.test('a forwarded request is never hedged', async t => {
  const { fleet, asked } = await nodesOf(t, [late(300, answers('["first"]')), answers('["second"]')])
  const answer = await fleet.forward(question, anything, fine, new AbortController().signal)
  answer.rest?.destroy()
  t.same(asked(), [1, 0])
})
