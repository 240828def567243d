import t, { type Test } from 'tap'
import { UpstreamFailure } from '../../src/upstreams/upstream-failure.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { type PollResult } from '../../src/workers/messages.js'
import { RemoteProbes } from '../../src/workers/remote-probes.js'
import { SharedPoller } from '../../src/workers/shared-poller.js'
import { respondToIndex, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type RequestListener } from 'node:http'

/** Makes a poller for all workers; the test controls the upstream's response and the clock. */
async function shared (
  t: Test,
  index: RequestListener
): Promise<{ polls: SharedPoller, told: string[], now: { ms: number }, asked: () => number }> {
  let asked = 0
  const node = await startStubUpstream(t, (_request, response) => {
    response.writeHead(404).end()
  }, (request, response) => {
    asked++
    index(request, response)
  })
  const now = { ms: 0 }
  const told: string[] = []
  const nodes = [
    new UpstreamClient({
      name: 'n',
      url: node.url,
      headers: {},
      timeoutMs: 300,
      maxConcurrent: 20,
      caFile: null,
      maxBufferedBytes: 1000,
      now: () => now.ms
    }, { fetched: () => {} })
  ]
  const polls = new SharedPoller(nodes, () => now.ms, (name, target, polled) => {
    told.push(`${name} ${target} ${'failure' in polled ? polled.failure : polled.status}`)
  })
  t.teardown(async () => {
    await polls.close()
  })
  return { polls, told, now, asked: () => asked }
}

t.test('callers share a poll in flight or just finished; later callers poll again', async t => {
  const { polls, told, now, asked } = await shared(t, respondToIndex)
  polls.poll('n', '/v1', 300)
  polls.poll('n', '/v1', 300)
  await until(() => told.length === 1, 'it has come')
  t.equal(asked(), 1)
  now.ms = 49
  polls.poll('n', '/v1', 300)
  t.same(told, ['n /v1 200', 'n /v1 200'], 'notified again at once')
  now.ms = 50
  polls.poll('n', '/v1', 300)
  await until(() => told.length === 3, 'another has come')
  t.equal(asked(), 2)
  polls.poll('nobody', '/v1', 300)
  t.equal(told.length, 3)
})

t.test('a hanging upstream is polled again a few times at most, and a late result is dropped', async t => {
  const held: Array<() => void> = []
  const { polls, told, now, asked } = await shared(t, (request, response) => {
    held.push(() => {
      respondToIndex(request, response)
    })
  })
  for (let nth = 0; nth < 10; nth++) {
    polls.poll('n', '/v1', 5000)
    await until(() => asked() === Math.min(nth + 1, 8), 'it was asked')
    now.ms += 1000
  }
  t.equal(asked(), 8)
  held[7]?.()
  await until(() => told.length === 1, 'the last is answered')
  await polls.close()
  t.same(told, ['n /v1 200'])
})

t.test('an upstream that does not respond is reported with the reason', async t => {
  const { polls, told } = await shared(t, (_request, response) => {
    response.destroy()
  })
  polls.poll('n', '/v1', 300)
  await until(() => told.length === 1, 'it is told')
  t.match(told, [/^n \/v1 truncated$/])
})

const word: PollResult = { status: 200, headers: { 'x-aptos-chain-id': '4' }, body: Buffer.from('{}') }

t.test('a worker polls through the primary process, and takes its result as the upstream\'s', async t => {
  const asked: string[] = []
  const probes = new RemoteProbes((node, target, timeoutMs) => {
    asked.push(`${node} ${target} ${timeoutMs}`)
  })
  let over = 0
  const question = (node: string): ReturnType<ReturnType<RemoteProbes['transportTo']>['send']> =>
    probes.transportTo({ name: node, timeoutMs: 70 }).send(probeRequest('/v1'), 10, undefined, () => {
      over++
    })
  const [first, second, other] = [question('a'), question('a'), question('b')]
  t.same(asked, ['a /v1 70', 'a /v1 70', 'b /v1 70'])
  probes.onPollResult('a', '/v1', word, () => {
    t.fail('somebody waits for it')
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
  const asked: string[] = []
  const probes = new RemoteProbes(node => {
    asked.push(node)
  })
  const transport = probes.transportTo({ name: 'a', timeoutMs: 70 })
  let taken: ReturnType<typeof transport.send> | undefined
  probes.onPollResult('a', '/v1', word, () => {
    taken = transport.send(probeRequest('/v1'), 10, undefined, () => {})
  })
  t.match(await taken?.received, { status: 200 })
  t.same(asked, [])
  transport.send(probeRequest('/v1'), 10, undefined, () => {})
  t.same(asked, ['a'])
})

t.test('an aborted poll fails with the reason, and leaves nothing behind', async t => {
  const probes = new RemoteProbes(() => {})
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
