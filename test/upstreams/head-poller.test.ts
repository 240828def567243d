import t, { type Test } from 'tap'
import { readPosition } from '../../src/api/position.js'
import { Tracker } from '../../src/chain/tracker.js'
import { HeadPoller, type HeadPollOptions } from '../../src/upstreams/head-pollers.js'
import { isPollDue, type PolledUpstream } from '../../src/upstreams/polling-policy.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'
import { respondToIndex, respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { upstreamAt } from '../support/upstream.js'
import { type RequestListener } from 'node:http'

/** Polls that said something: a silent one was answered without a position. */
type Said = 'polled' | 'silent'

/** Returns a healthy, verified upstream whose position has the given age. */
function upstreamWith (ageMs: () => number, said: Said[]): HeadPollOptions['upstream'] {
  return {
    state: 'up',
    isUp: true,
    isVerified: true,
    health: { isBackingOff: false },
    get stampAgeMs () {
      return ageMs()
    },
    markSilent: () => said.push('silent')
  }
}

/** Makes a poller of an upstream with an index; without `requests` no other endpoint has a position. */
async function polled (t: Test, index: RequestListener, requests?: string[]) {
  const now = { ms: 0 }
  const stub = await startStubUpstream(t, (request, response) => {
    if (requests === undefined) {
      response.writeHead(200).end('{}')
      return
    }
    requests.push(request.url ?? '')
    respondOk(response, '[]')
  }, index)
  const upstream = upstreamAt(t, stub.url, { timeoutMs: 1000 })
  const tracker = new Tracker(undefined, () => now.ms)
  const states: Said[] = []
  const poll = new HeadPoller({
    upstream: upstreamWith(() => tracker.ageMs, states),
    fetch: async upstreamRequest => await upstream.send(upstreamRequest),
    heads: tracker,
    pollMs: 10,
    now: () => now.ms,
    onPolled: () => states.push('polled'),
    onRelease: release => {
      upstream.release = release
    }
  })
  t.teardown(async () => poll.stop())
  return { poll, states, tracker, upstream, now }
}

t.test('while peers report heads, an idle upstream is polled every 10 s, others as before', async t => {
  const idle = { state: 'up', isUp: true, isVerified: true, health: { isBackingOff: false }, stampAgeMs: 2000 }
  const isDue = (change: Partial<PolledUpstream>, peerHeadAgeMs: number, pollMs = 1000, sinceSentMs = 2000): boolean =>
    isPollDue({ ...idle, ...change }, pollMs, sinceSentMs, peerHeadAgeMs)
  t.equal(isDue({}, Infinity), true)
  t.equal(isDue({}, 3000), true, 'no peer polls any more')
  t.equal(isDue({}, 2999), false)
  t.equal(isDue({ stampAgeMs: 10_000 }, 0), true)
  t.equal(isDue({ stampAgeMs: 10_000 }, 0, 60_000), false)
  t.equal(isDue({ stampAgeMs: 0 }, 0, 1000, 29_000), false)
  t.equal(isDue({ stampAgeMs: 0 }, 0, 1000, 30_000), true, 'its release is read half as often')
  t.equal(isDue({ stampAgeMs: 0 }, Infinity, 1000, 15_000), true)
  t.equal(isDue({ isUp: false }, 0), true)
  t.equal(isDue({ isVerified: false }, 0), true)
})

t.test('a poll asks for the gas estimate only where a working index has no position', async t => {
  const index = (status: number): RequestListener => (_request, response) => {
    response.writeHead(status).end('{"git_hash":"aaaa"}')
  }
  const gas = '/v1/estimate_gas_price'
  const answered: Said[] = ['polled']
  const unanswered: Said[] = ['silent', 'polled']
  const cases: Array<[why: string, index: RequestListener, outcome: Said[], asked: string[], release?: string]> = [
    ['no response', (_request, response) => response.destroy(), unanswered, []],
    ['a release', index(200), answered, [gas], 'aaaa'],
    ['a closed index', index(403), answered, [gas]],
    ['a busy one', index(429), unanswered, []],
    ['a failing one', index(500), unanswered, []],
    ['an overloaded one', index(503), unanswered, []]
  ]
  for (const [why, respond, outcome, asked, release] of cases) {
    const requests: string[] = []
    const { poll, states, tracker, upstream } = await polled(t, respond, requests)
    await poll.poll()
    t.same([states, requests, upstream.release], [outcome, asked, release], why)
    t.equal(tracker.position?.head.version, outcome === answered ? 1000n : undefined, why)
  }
  const { poll, states } = await polled(t, index(200))
  await poll.poll()
  t.same(states, unanswered, 'no endpoint has a position')
})

t.test('the head is polled when the position is old, and not while traffic updates it', async t => {
  let requestCount = 0
  let arrived: () => void = () => {}
  const { poll, now } = await polled(t, (request, response) => {
    requestCount++
    respondToIndex(request, response)
    arrived()
  })
  await poll.start()
  await new Promise(resolve => setTimeout(resolve, 50))
  t.equal(requestCount, 1, 'five timer intervals passed, but the position is not old')
  const again = new Promise<void>(resolve => {
    arrived = resolve
  })
  now.ms = 10
  await again
  t.equal(requestCount, 2)
})

t.test('the release is polled every 15 s, even while the position is fresh', async t => {
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

t.test('a hanging upstream is polled again, with at most 8 polls in flight, and late ones ignored', async t => {
  const now = { ms: 0 }
  const states: Said[] = []
  const hanging: Array<(error: Error | undefined) => void> = []
  const fetch = async (): Promise<UpstreamResponse> => {
    const failure = await new Promise<Error | undefined>(resolve => hanging.push(resolve))
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
  const poll = new HeadPoller({
    upstream: upstreamWith(() => Infinity, states),
    fetch,
    heads: new Tracker(undefined, () => now.ms),
    pollMs: 1000,
    now: () => now.ms,
    onPolled: () => states.push('polled'),
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
  t.same(states, ['polled'])
  for (const fail of hanging) fail(new Error('timed out'))
  await Promise.all(polls)
  t.same(states, ['polled'])
  const next = poll.poll()
  hanging[8]?.(new Error('timed out'))
  await next
  t.same(states, ['polled', 'silent', 'polled'], 'a later poll counts')
  poll.stop()
  await poll.poll()
  t.equal(hanging.length, 9, 'no poll after stop')
})
