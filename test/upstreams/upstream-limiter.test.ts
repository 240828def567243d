import t, { type Test } from 'tap'
import {
  UpstreamLimiter,
  type UpstreamLimiterOptions,
  NoSlotError,
  type SlotRequest,
  type RequestSlot
} from '../../src/upstreams/upstream-limiter.js'

function limiterOf (t: Test, change: Partial<UpstreamLimiterOptions> = {}): UpstreamLimiter {
  const limiter = new UpstreamLimiter({
    maxConcurrent: 1,
    requestsPerSecond: null,
    now: () => performance.now(),
    ...change
  })
  t.teardown(() => limiter.close())
  return limiter
}

const wish = (change: Partial<SlotRequest> = {}): SlotRequest => ({
  clientId: 'a',
  isProbe: false,
  timeoutMs: 60_000,
  signal: undefined,
  ...change
})

/** Queues named slot requests and records grants and rejections in their order. */
function line (
  limiter: UpstreamLimiter
): { enqueue: (name: string, change?: Partial<SlotRequest>) => void, slots: RequestSlot[], events: string[] } {
  const events: string[] = []
  const slots: RequestSlot[] = []
  return {
    slots,
    events,
    enqueue: (name, change) => {
      limiter.acquire(wish({ clientId: name[0], ...change })).then(
        slot => {
          events.push(name)
          slots.push(slot)
        },
        error => events.push(`${name} ${error instanceof NoSlotError ? 'rejected' : String(error.name)}`)
      )
    }
  }
}

const eventLoopTurn = async (): Promise<void> => {
  await new Promise(resolve => setImmediate(resolve))
}

/** Releases each slot once it is granted, until the queue is empty. */
async function serveAll (slots: RequestSlot[], firstSlot: RequestSlot | undefined): Promise<void> {
  for (let slot: RequestSlot | undefined = firstSlot; slot !== undefined; slot = slots.shift()) {
    slot.release()
    await eventLoopTurn()
  }
}

t.test('slots go to clients round-robin; probes go first, but never twice in a row', async t => {
  const limiter = limiterOf(t)
  const firstSlot = limiter.tryAcquire(false)
  t.equal(limiter.tryAcquire(false), undefined, 'the only slot is taken')
  const { enqueue, slots, events } = line(limiter)
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) enqueue(name)
  for (const name of ['own1', 'own2', 'own3']) enqueue(name, { isProbe: true })
  await serveAll(slots, firstSlot)
  t.same(
    events,
    ['own1', 'a1', 'own2', 'b1', 'own3', 'c1', 'a2', 'b2', 'a3', 'a4'],
    'two probes in a row could starve all reads of a small limiter'
  )
  t.same([limiter.inFlight, limiter.queued], [0, 0])
})

t.test('a full queue rejects at once; a client with fewer queued requests displaces one with more', async t => {
  const limiter = limiterOf(t)
  const firstSlot = limiter.tryAcquire(false)
  const { enqueue, slots, events } = line(limiter)
  for (let nth = 1; nth <= 7; nth++) enqueue(`a${nth}`)
  enqueue('a8')
  await eventLoopTurn()
  t.same(events, ['a8 rejected'])
  for (const name of ['b1', 'b2', 'b3', 'b4', 'c1']) enqueue(name)
  await eventLoopTurn()
  t.same(
    new Set(events.slice(1)),
    new Set(['a7 rejected', 'a6 rejected', 'a5 rejected', 'b4 rejected', 'a4 rejected']),
    'no displacement that would only reverse the difference'
  )
  t.equal(limiter.queued, 7)
  for (let nth = 1; nth <= 20; nth++) enqueue(`own${nth}`, { isProbe: true })
  t.equal(limiter.queued, 27, 'probes are never rejected')
  events.length = 0
  await serveAll(slots, firstSlot)
  t.equal(events.length, 27)
})

t.test('a slot that is not sent yet counts against the rate; a released unsent slot does not', async t => {
  const limiter = limiterOf(t, { maxConcurrent: 8, requestsPerSecond: 1 })
  const connecting = limiter.tryAcquire(false)
  const { enqueue, slots, events } = line(limiter)
  enqueue('a1')
  await eventLoopTurn()
  t.same(events, [])
  connecting?.release()
  await eventLoopTurn()
  t.same(events, ['a1'])
  const [slot] = slots
  slot?.markSent()
  slot?.markSent()
  slot?.release()
  t.equal(limiter.tryAcquire(false), undefined)
})

t.test('a request that the rate cannot serve within its timeout is rejected at once', async t => {
  const limiter = limiterOf(t, { maxConcurrent: 100, requestsPerSecond: 2 })
  for (const slot of [limiter.tryAcquire(false), limiter.tryAcquire(false)]) slot?.markSent()
  const { enqueue, events } = line(limiter)
  for (let nth = 1; nth <= 7; nth++) enqueue(`a${nth}`, { timeoutMs: 2500 })
  await eventLoopTurn()
  t.same(events, ['a7 rejected'], 'the rate allows six within three seconds')
  t.equal(limiter.exhaustedLimit, 'requestsPerSecond')
})

t.test('a removed upstream is idle once no request is in flight or queued, also for the rate', async t => {
  const clock = { ms: 0 }
  const limiter = limiterOf(t, { requestsPerSecond: 1, now: () => clock.ms })
  const slot = limiter.tryAcquire(false)
  const { enqueue, events } = line(limiter)
  enqueue('b', { timeoutMs: 300 })
  let isIdle = false
  const idle = limiter.waitUntilIdle().then(() => {
    isIdle = true
  })
  slot?.markSent()
  slot?.release()
  await eventLoopTurn()
  t.notOk(isIdle, 'one request is still queued')
  await idle
  t.same(events, ['b rejected'])
  await limiter.waitUntilIdle()
})

/** Takes slots for a client and turns them into streams; `broken` gets the names of those that are broken off. */
function streamsOf (limiter: UpstreamLimiter, clientId: string, count: number, broken: string[] = []): number {
  const slots = Array.from({ length: count }, () => limiter.tryAcquire(false, clientId))
  for (const [nth, slot] of slots.entries()) {
    slot?.markStreaming(() => {
      broken.push(`${clientId}${nth}`)
      slot.release()
    })
  }
  return slots.filter(Boolean).length
}

t.test('while others wait, the oldest streams of a client beyond its share are broken off', async t => {
  const cases: Array<[why: string, maxConcurrent: number, broken: string[]]> = [
    ['half of five', 5, ['a0', 'a1']],
    ['the only slot of clients', 2, ['a0']],
    ['the only slot of all', 1, ['a0']]
  ]
  for (const [why, maxConcurrent, expected] of cases) {
    const clock = { ms: 0 }
    const broken: string[] = []
    let count = 0
    const limiter = limiterOf(t, {
      maxConcurrent,
      now: () => clock.ms,
      onBrokenOff: () => {
        count++
      }
    })
    streamsOf(limiter, 'a', 4, broken)
    clock.ms = 1000
    const leaving = new AbortController()
    limiter.acquire(wish({ signal: leaving.signal })).catch(() => {})
    t.same(broken, [], `${why}: its own requests wait for it`)
    t.equal(limiter.exhaustedLimit, 'maxConcurrent', 'one waits for a slot that streams hold')
    leaving.abort()
    t.ok(await limiter.acquire(wish({ clientId: 'b' })))
    t.same([broken, count], [expected, expected.length], why)
  }
})

t.test('every stream has a second before it is broken off', async t => {
  const limiter = limiterOf(t, { maxConcurrent: 3 })
  const broken: string[] = []
  const started = performance.now()
  streamsOf(limiter, 'a', 2, broken)
  t.ok(await limiter.acquire(wish({ clientId: 'b' })))
  t.ok(performance.now() - started >= 1000)
  t.same(broken, ['a0'])
})

t.test('a client with its share of streams is served after all others that wait', async t => {
  const limiter = limiterOf(t, { maxConcurrent: 3, now: () => 0 })
  streamsOf(limiter, 'a', 1)
  const held = limiter.tryAcquire(false, 'c')
  const { enqueue, slots, events } = line(limiter)
  for (const name of ['a1', 'b1']) enqueue(name)
  await serveAll(slots, held)
  t.same(events, ['b1', 'a1'])
})
