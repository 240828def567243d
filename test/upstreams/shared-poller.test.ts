import t, { type Test } from 'tap'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { type PollResult } from '../../src/upstreams/shared-poller.js'
import { ProbesThroughPrimary } from '../../src/upstreams/probes-through-primary.js'
import { SharedPoller } from '../../src/upstreams/shared-poller.js'
import { respondToIndex, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type RequestListener } from 'node:http'

/** Makes a poller for all workers; the test controls the upstream's response and the clock. */
async function shared (
  t: Test,
  index: RequestListener
): Promise<{ polls: SharedPoller, notified: string[], now: { ms: number }, requestCount: () => number }> {
  let requestCount = 0
  const upstream = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404).end()
  }, (request, response) => {
    requestCount++
    index(request, response)
  })
  const now = { ms: 0 }
  const notified: string[] = []
  const upstreams = [
    new UpstreamClient({
      name: 'n',
      url: upstream.url,
      headers: {},
      timeoutMs: 300,
      maxConcurrent: 20,
      caFile: null,
      maxBufferedBytes: 1000,
      now: () => now.ms
    }, { fetched: () => {} })
  ]
  const polls = new SharedPoller(upstreams, () => now.ms, (name, target, polled) => {
    notified.push(`${name} ${target} ${'failure' in polled ? polled.failure : polled.status}`)
  })
  t.teardown(async () => {
    await polls.close()
  })
  return { polls, notified, now, requestCount: () => requestCount }
}

t.test('callers share a poll in flight or just finished; later callers poll again', async t => {
  const { polls, notified, now, requestCount } = await shared(t, respondToIndex)
  polls.poll('n', '/v1', 300)
  polls.poll('n', '/v1', 300)
  await until(() => notified.length === 1, '1 notification arrived')
  t.equal(requestCount(), 1)
  now.ms = 49
  polls.poll('n', '/v1', 300)
  t.same(notified, ['n /v1 200', 'n /v1 200'], 'notified again at once')
  now.ms = 50
  polls.poll('n', '/v1', 300)
  await until(() => notified.length === 3, '3 notifications arrived')
  t.equal(requestCount(), 2)
  polls.poll('unknown', '/v1', 300)
  t.equal(notified.length, 3)
})

t.test('a hanging upstream is polled again a few times at most, and a late result is dropped', async t => {
  const withheld: Array<() => void> = []
  const { polls, notified, now, requestCount } = await shared(t, (request, response) => {
    withheld.push(() => {
      respondToIndex(request, response)
    })
  })
  for (let nth = 0; nth < 10; nth++) {
    polls.poll('n', '/v1', 5000)
    await until(() => requestCount() === Math.min(nth + 1, 8), 'the upstream was polled again')
    now.ms += 1000
  }
  t.equal(requestCount(), 8)
  withheld[7]?.()
  await until(() => notified.length === 1, '1 notification arrived')
  await polls.close()
  t.same(notified, ['n /v1 200'])
})

t.test('an upstream that does not respond is reported with the reason', async t => {
  const { polls, notified } = await shared(t, (_request, response) => {
    response.destroy()
  })
  polls.poll('n', '/v1', 300)
  await until(() => notified.length === 1, '1 notification arrived')
  t.match(notified, [/^n \/v1 truncated$/])
})

const word: PollResult = { status: 200, headers: { 'x-aptos-chain-id': '4' }, body: Buffer.from('{}') }

t.test('a worker polls through the primary process, and takes its result as the upstream\'s', async t => {
  const requests: string[] = []
  const probes = new ProbesThroughPrimary((upstream, target, timeoutMs) => {
    requests.push(`${upstream} ${target} ${timeoutMs}`)
  })
  let over = 0
  const sendProbe = (upstream: string): ReturnType<ReturnType<ProbesThroughPrimary['transportTo']>['send']> =>
    probes.transportTo({ name: upstream, timeoutMs: 70 }).send(probeRequest('/v1'), 10, undefined, () => {
      over++
    })
  const [first, second, other] = [sendProbe('a'), sendProbe('a'), sendProbe('b')]
  t.same(requests, ['a /v1 70', 'a /v1 70', 'b /v1 70'])
  probes.onPollResult('a', '/v1', word, () => {
    t.fail('a caller waits for it')
  })
  t.same(await first.received, {
    status: 200,
    headers: { 'x-aptos-chain-id': '4' },
    body: Buffer.from('{}'),
    rest: undefined
  })
  t.match(await second.received, { status: 200 })
  t.equal(over, 2)
  probes.onPollResult('b', '/v1', { failure: 'refused' }, () => {})
  t.match(await other.received.catch((error: unknown) => error), { reason: 'refused' })
  t.ok(await other.received.catch((error: unknown) => error instanceof UpstreamFailure))
})

t.test('a result that no caller awaits is available while it is published, and no longer', async t => {
  const requests: string[] = []
  const probes = new ProbesThroughPrimary(upstream => {
    requests.push(upstream)
  })
  const transport = probes.transportTo({ name: 'a', timeoutMs: 70 })
  let taken: ReturnType<typeof transport.send> | undefined
  probes.onPollResult('a', '/v1', word, () => {
    taken = transport.send(probeRequest('/v1'), 10, undefined, () => {})
  })
  t.match(await taken?.received, { status: 200 })
  t.same(requests, [])
  transport.send(probeRequest('/v1'), 10, undefined, () => {})
  t.same(requests, ['a'])
})

t.test('an aborted poll fails with the reason, and leaves nothing behind', async t => {
  const probes = new ProbesThroughPrimary(() => {})
  let over = 0
  const { received, cancel } = probes.transportTo({ name: 'a', timeoutMs: 70 }).send(
    probeRequest('/v1'),
    10,
    undefined,
    () => {
      over++
    }
  )
  cancel(new Error('no answer in time'))
  await t.rejects(received, { message: 'no answer in time' })
  let woken = 0
  probes.onPollResult('a', '/v1', word, () => {
    woken++
  })
  t.same([over, woken], [1, 1], 'no caller waits any more')
})
