import t from 'tap'
import { Budget } from '../../src/upstreams/budget.js'
import { type UpstreamSlot } from '../../src/upstreams/upstream-slot.js'

/** Takes slots for a client and turns them into streams; returns the order in which they are broken off. */
function streamsOf (
  budget: Budget,
  clientId: string,
  count: number,
  broken: string[]
): Array<UpstreamSlot | undefined> {
  return Array.from({ length: count }, (_, nth) => {
    const slot = budget.tryAcquire(false, clientId)
    slot?.markStreaming(() => {
      broken.push(`${clientId}${nth}`)
      slot.release()
    })
    return slot
  })
}

const wish = (clientId: string, isProbe = false) => ({ clientId, isProbe, timeoutMs: 60_000, signal: undefined })

t.test('one slot stays free for probes, however many clients stream or wait', async t => {
  const budget = new Budget({ maxConcurrent: 4, requestsPerSecond: null, now: () => 0 })
  t.teardown(() => {
    budget.close()
  })
  const broken: string[] = []
  t.equal(streamsOf(budget, 'a', 4, broken).filter(Boolean).length, 3)
  budget.acquire(wish('b')).catch(() => {})
  t.ok(budget.tryAcquire(true))
  t.same([budget.inFlight, budget.streams, budget.queued], [4, 3, 1])
  t.equal(budget.tryAcquire(true), undefined, 'probes count against the limit too')
})

t.test('a client keeps all its streams while no other waits', async t => {
  const budget = new Budget({ maxConcurrent: 5, requestsPerSecond: null, now: () => performance.now() - 5000 })
  t.teardown(() => {
    budget.close()
  })
  const broken: string[] = []
  streamsOf(budget, 'a', 4, broken)
  budget.acquire(wish('a')).catch(() => {})
  t.same(broken, [])
  t.equal(budget.exhaustedLimit, 'maxConcurrent', 'one waits for a slot that streams hold')
})

t.test('while others wait, a client\'s oldest streams beyond half of the slots are broken off', async t => {
  const clock = { ms: 0 }
  let count = 0
  const budget = new Budget({
    maxConcurrent: 5,
    requestsPerSecond: null,
    now: () => clock.ms,
    onBrokenOff: () => {
      count++
    }
  })
  t.teardown(() => {
    budget.close()
  })
  const broken: string[] = []
  streamsOf(budget, 'a', 4, broken)
  clock.ms = 1000
  t.ok(await budget.acquire(wish('b')))
  t.same(broken, ['a0', 'a1'])
  t.equal(count, 2)
  t.same([budget.streams, budget.inFlight], [2, 3])
})

t.test('where clients have a single slot, one stream does not hold it while others wait', async t => {
  for (const maxConcurrent of [1, 2]) {
    const clock = { ms: 0 }
    const budget = new Budget({ maxConcurrent, requestsPerSecond: null, now: () => clock.ms })
    t.teardown(() => {
      budget.close()
    })
    const broken: string[] = []
    t.equal(streamsOf(budget, 'a', 2, broken).filter(Boolean).length, 1)
    clock.ms = 1000
    const leaving = new AbortController()
    budget.acquire({ ...wish('a'), signal: leaving.signal }).catch(() => {})
    t.same(broken, [], 'its own requests wait for it')
    leaving.abort()
    t.ok(await budget.acquire(wish('b')))
    t.same(broken, ['a0'])
  }
})

t.test('every stream has a second before it is broken off', async t => {
  const budget = new Budget({ maxConcurrent: 3, requestsPerSecond: null, now: () => performance.now() })
  t.teardown(() => {
    budget.close()
  })
  const broken: string[] = []
  const started = performance.now()
  streamsOf(budget, 'a', 2, broken)
  t.ok(await budget.acquire(wish('b')))
  t.ok(performance.now() - started >= 1000)
  t.same(broken, ['a0'])
})

t.test('a client with its share of streams is served after all others that wait', async t => {
  const budget = new Budget({ maxConcurrent: 3, requestsPerSecond: null, now: () => 0 })
  t.teardown(() => {
    budget.close()
  })
  streamsOf(budget, 'a', 1, [])
  const held = budget.tryAcquire(false, 'c')
  const order: string[] = []
  for (const client of ['a', 'b']) {
    budget.acquire(wish(client)).then(slot => {
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
