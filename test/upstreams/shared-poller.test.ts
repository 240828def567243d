import t, { type Test } from 'tap'
import { SharedPoller } from '../../src/upstreams/shared-poller.js'
import { respondToIndex, startStubUpstream } from '../support/stub-upstream.js'
import { upstreamClientAt } from '../support/upstream-client.js'
import { until } from '../support/until.js'
import { type RequestListener } from 'node:http'

/** Makes a poller for all workers; the test controls the upstream's response and the clock. */
async function shared (
  t: Test,
  index: RequestListener
): Promise<{ polls: SharedPoller, notified: string[], now: { ms: number }, requestCount: () => number }> {
  let requestCount = 0
  const upstream = await startStubUpstream(
    t,
    (_request, response) => response.writeHead(404).end(),
    (request, response) => {
      requestCount++
      index(request, response)
    }
  )
  const now = { ms: 0 }
  const notified: string[] = []
  const upstreams = [upstreamClientAt(t, upstream.url, { timeoutMs: 300, maxConcurrent: 20, now: () => now.ms })]
  const polls = new SharedPoller(upstreams, () => now.ms, (name, target, polled) => {
    notified.push(`${name} ${target} ${'failure' in polled ? polled.failure : polled.status}`)
  })
  t.teardown(async () => await polls.close())
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
    withheld.push(() => respondToIndex(request, response))
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
