import t from 'tap'
import { UpstreamLimiter, type RequestSlot } from '../../src/upstreams/upstream-limiter.js'

/** Takes slots for a client and turns them into streams; returns the order in which they are broken off. */
function streamsOf (
  limiter: UpstreamLimiter,
  clientId: string,
  count: number,
  broken: string[]
): Array<RequestSlot | undefined> {
  return Array.from({ length: count }, (_, nth) => {
    const slot = limiter.tryAcquire(false, clientId)
    slot?.markStreaming(() => {
      broken.push(`${clientId}${nth}`)
      slot.release()
    })
    return slot
  })
}

const wish = (clientId: string, isProbe = false) => ({ clientId, isProbe, timeoutMs: 60_000, signal: undefined })

t.test('one slot stays free for probes, however many clients stream or wait', async t => {
  const limiter = new UpstreamLimiter({ maxConcurrent: 4, requestsPerSecond: null, now: () => 0 })
  t.teardown(() => {
    limiter.close()
  })
  const broken: string[] = []
  t.equal(streamsOf(limiter, 'a', 4, broken).filter(Boolean).length, 3)
  limiter.acquire(wish('b')).catch(() => {})
  t.ok(limiter.tryAcquire(true))
  t.same([limiter.inFlight, limiter.streams, limiter.queued], [4, 3, 1])
  t.equal(limiter.tryAcquire(true), undefined, 'probes count against the limit too')
})

t.test('a client keeps all its streams while no other waits', async t => {
  const limiter = new UpstreamLimiter({
    maxConcurrent: 5,
    requestsPerSecond: null,
    now: () => performance.now() - 5000
  })
  t.teardown(() => {
    limiter.close()
  })
  const broken: string[] = []
  streamsOf(limiter, 'a', 4, broken)
  limiter.acquire(wish('a')).catch(() => {})
  t.same(broken, [])
  t.equal(limiter.exhaustedLimit, 'maxConcurrent', 'one waits for a slot that streams hold')
})

t.test('while others wait, a client\'s oldest streams beyond half of the slots are broken off', async t => {
  const clock = { ms: 0 }
  let count = 0
  const limiter = new UpstreamLimiter({
    maxConcurrent: 5,
    requestsPerSecond: null,
    now: () => clock.ms,
    onBrokenOff: () => {
      count++
    }
  })
  t.teardown(() => {
    limiter.close()
  })
  const broken: string[] = []
  streamsOf(limiter, 'a', 4, broken)
  clock.ms = 1000
  t.ok(await limiter.acquire(wish('b')))
  t.same(broken, ['a0', 'a1'])
  t.equal(count, 2)
  t.same([limiter.streams, limiter.inFlight], [2, 3])
})

t.test('where clients have a single slot, one stream does not hold it while others wait', async t => {
  for (const maxConcurrent of [1, 2]) {
    const clock = { ms: 0 }
    const limiter = new UpstreamLimiter({ maxConcurrent, requestsPerSecond: null, now: () => clock.ms })
    t.teardown(() => {
      limiter.close()
    })
    const broken: string[] = []
    t.equal(streamsOf(limiter, 'a', 2, broken).filter(Boolean).length, 1)
    clock.ms = 1000
    const leaving = new AbortController()
    limiter.acquire({ ...wish('a'), signal: leaving.signal }).catch(() => {})
    t.same(broken, [], 'its own requests wait for it')
    leaving.abort()
    t.ok(await limiter.acquire(wish('b')))
    t.same(broken, ['a0'])
  }
})

t.test('every stream has a second before it is broken off', async t => {
  const limiter = new UpstreamLimiter({ maxConcurrent: 3, requestsPerSecond: null, now: () => performance.now() })
  t.teardown(() => {
    limiter.close()
  })
  const broken: string[] = []
  const started = performance.now()
  streamsOf(limiter, 'a', 2, broken)
  t.ok(await limiter.acquire(wish('b')))
  t.ok(performance.now() - started >= 1000)
  t.same(broken, ['a0'])
})

t.test('a client with its share of streams is served after all others that wait', async t => {
  const limiter = new UpstreamLimiter({ maxConcurrent: 3, requestsPerSecond: null, now: () => 0 })
  t.teardown(() => {
    limiter.close()
  })
  streamsOf(limiter, 'a', 1, [])
  const held = limiter.tryAcquire(false, 'c')
  const order: string[] = []
  for (const client of ['a', 'b']) {
    limiter.acquire(wish(client)).then(slot => {
      order.push(client)
      slot.release()
    }, () => {})
  }
  held?.release()
  await new Promise(resolve => {
    setImmediate(resolve)
  })
  t.same(order, ['b', 'a'])
})
