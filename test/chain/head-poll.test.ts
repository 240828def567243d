import t, { type Test } from 'tap'
import { readPosition } from '../../src/api/position.js'
import { Tracker } from '../../src/chain/tracker.js'
import { HeadPoll, type PollState } from '../../src/chain/head-poll.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { respondToIndex, respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type RequestListener } from 'node:http'

async function polled (
  t: Test,
  index: RequestListener,
  pollMs = 10,
  now = { ms: 0 },
  asked?: string[]
): Promise<{ poll: HeadPoll, states: PollState[], tracker: Tracker, node: UpstreamClient, now: { ms: number } }> {
  const stub = await startStubUpstream(t, (request, response) => {
    // A node that says nowhere where it stands, unless it is to be asked elsewhere.
    if (asked === undefined) {
      response.writeHead(200).end('{}')
      return
    }
    asked.push(request.url ?? '')
    respondOk(response, '[]')
  }, index)
  const node = new UpstreamClient({
    name: 'n',
    url: stub.url,
    headers: {},
    timeoutMs: 1000,
    maxConcurrent: 4,
    caFile: null,
    maxBufferedBytes: 1000,
    now: () => performance.now()
  }, { fetched: () => {} })
  const tracker = new Tracker(undefined, () => now.ms)
  const states: PollState[] = []
  const poll = new HeadPoll(async question => await node.fetch(question), tracker, {
    pollMs,
    now: () => now.ms,
    isDue: () => tracker.ageMs >= pollMs,
    onState: state => states.push(state),
    onRelease: release => {
      node.setRelease(release)
    }
  })
  t.teardown(async () => {
    poll.stop()
    await node.close()
  })
  return { poll, states, tracker, node, now }
}

t.test('a poll learns the position and the release', async t => {
  const { poll, states, tracker, node } = await polled(t, respondToIndex)
  await poll.poll()
  t.equal(tracker.position?.head.version, 1000n)
  t.equal(node.release, 'aaaa')
  t.same(states, ['answered'])
})

t.test('polls at the same time share one question', async t => {
  let asked = 0
  const { poll } = await polled(t, (request, response) => {
    asked++
    respondToIndex(request, response)
  })
  await Promise.all([poll.poll(), poll.poll(), poll.poll()])
  t.equal(asked, 1)
  await poll.poll()
  t.equal(asked, 2)
})

t.test('a node that does not answer, or without a position, is said to', async t => {
  const mute = await polled(t, (_request, response) => {
    response.destroy()
  })
  await mute.poll.poll()
  const bare = await polled(t, (_request, response) => {
    response.writeHead(200).end('{}')
  })
  await bare.poll.poll()
  t.same([mute.states, bare.states], [['unanswered'], ['unanswered']])
})

t.test('where the index bears no position, or is kept back, the gas estimate tells it, and the index its release all the same', async t => {
  for (const [status, release] of [[200, 'aaaa'], [403, undefined]] as const) {
    const asked: string[] = []
    const { poll, states, tracker, node } = await polled(
      t,
      (_request, response) => {
        response.writeHead(status).end('{"git_hash":"aaaa"}')
      },
      10,
      { ms: 0 },
      asked
    )
    await poll.poll()
    t.same(states, ['answered'])
    t.equal(tracker.position?.head.version, 1000n)
    t.equal(node.release, release)
    t.same(asked, ['/v1/estimate_gas_price'])
  }
})

t.test('a node that is sick, or asks for rest, is not asked for the gas estimate too', async t => {
  for (const status of [429, 500, 503]) {
    const asked: string[] = []
    const { poll, states } = await polled(
      t,
      (_request, response) => {
        response.writeHead(status).end()
      },
      10,
      { ms: 0 },
      asked
    )
    await poll.poll()
    t.same([states, asked], [['unanswered'], []])
  }
})

t.test('a poll that is cut off because varve stops says nothing of the node', async t => {
  let arrived = (): void => {}
  const asked = new Promise<void>(resolve => {
    arrived = resolve
  })
  const { poll, states, node } = await polled(t, () => {
    arrived()
  })
  const polling = poll.poll()
  await asked
  poll.stop()
  await node.close()
  await polling
  t.same(states, [])
})

t.test('a poll that got no turn in time says nothing of the node', async t => {
  const { poll, states, node } = await polled(t, respondToIndex)
  for (let nth = 0; nth < 4; nth++) node.budget.tryAcquire(false)
  await poll.poll()
  t.same(states, [])
})

t.test('another chain and a reset are told apart, and a body that is no index names no release', async t => {
  let change = {}
  const { poll, states, node, tracker } = await polled(t, (_request, response) => {
    response.writeHead(200, stamps(change)).end('not an index')
  })
  await poll.poll()
  t.equal(node.release, undefined)
  change = { 'x-aptos-chain-id': '9' }
  await poll.poll()
  change = { 'x-aptos-ledger-version': '20', 'x-aptos-ledger-timestampusec': '2000000' }
  await poll.poll()
  t.same(states, ['answered', 'other_chain', 'answered'])
  t.equal(tracker.chain?.generation, 2)
})

t.test('in silence the head is asked for, and while traffic keeps the position fresh it is not', async t => {
  let asked = 0
  let arrived: () => void = () => {}
  const { poll, now } = await polled(t, (request, response) => {
    asked++
    respondToIndex(request, response)
    arrived()
  })
  await poll.start()
  await new Promise(resolve => {
    setTimeout(resolve, 50)
  })
  t.equal(asked, 1, 'five intervals have passed by the timer, none by the position\'s age')
  const again = new Promise<void>(resolve => {
    arrived = resolve
  })
  now.ms = 10
  await again
  t.equal(asked, 2)
})

t.test('the release is learned every fifteen seconds, however fresh the position is', async t => {
  let arrived: () => void = () => {}
  const { poll, now, tracker } = await polled(t, (request, response) => {
    respondToIndex(request, response)
    arrived()
  })
  await poll.start()
  const again = new Promise<void>(resolve => {
    arrived = resolve
  })
  now.ms = 15_000
  if (tracker.position !== undefined) tracker.learn(tracker.position, 'x-aptos-')
  t.equal(tracker.ageMs, 0)
  await again
})

t.test('a node that hangs is asked again beside what hangs, some times and no more; what it says late to the earlier ones changes nothing', async t => {
  const now = { ms: 0 }
  const states: PollState[] = []
  const hanging: Array<(error: Error | undefined) => void> = []
  const ask = async (): Promise<UpstreamResponse> => {
    const failure = await new Promise<Error | undefined>(resolve => {
      hanging.push(resolve)
    })
    if (failure !== undefined) throw failure
    return {
      status: 200,
      headers: {},
      body: Buffer.alloc(0),
      rest: undefined,
      isFramed: true,
      stamped: readPosition(stamps()),
      release: undefined
    }
  }
  const poll = new HeadPoll(ask, new Tracker(undefined, () => now.ms), {
    pollMs: 1000,
    now: () => now.ms,
    isDue: () => true,
    onState: state => states.push(state),
    onRelease: () => {}
  })
  const polls = []
  for (let second = 0; second < 12; second++) {
    polls.push(poll.poll(), poll.poll())
    now.ms += 1000
  }
  t.equal(hanging.length, 8)
  hanging[7]?.(undefined)
  await polls[15]
  t.same(states, ['answered'])
  for (const fail of hanging) fail(new Error('no answer in time'))
  await Promise.all(polls)
  t.same(states, ['answered'])
  const next = poll.poll()
  hanging[8]?.(new Error('no answer in time'))
  await next
  t.same(states, ['answered', 'unanswered'], 'what was sent after it does')
  poll.stop()
  await poll.poll()
  t.equal(hanging.length, 9, 'once stopped nobody is asked')
})

t.test('a node whose very first answer does not come is asked again all the same', async t => {
  let asked = 0
  const { poll, states } = await polled(t, (request, response) => {
    if (asked++ > 0) respondToIndex(request, response)
  })
  poll.start().catch(() => {})
  t.teardown(() => {
    poll.stop()
  })
  await until(() => states.includes('answered'), 'the second answers')
  t.ok(asked > 1)
})
