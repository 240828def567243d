import t, { type Test } from 'tap'
import { LocalBuckets, noBuckets, type TokenBuckets } from '../../src/clients/token-buckets.js'
import { unitCostOf, unitRateOf } from '../../src/upstreams/shared-rate.js'
import { type RequestSlot, UpstreamLimiter } from '../../src/upstreams/upstream-limiter.js'
import { until } from '../support/until.js'

const now = (): number => performance.now()

/** Builds the limiters of processes that share the limits of one upstream. */
function processesOf (
  t: Test,
  count: number,
  requestsPerSecond: number,
  buckets: Pick<TokenBuckets, 'take' | 'level'>
): { limiters: UpstreamLimiter[], sources: string[] } {
  const sources: string[] = []
  const limiters = Array.from({ length: count }, () =>
    new UpstreamLimiter({
      maxConcurrent: 1000,
      requestsPerSecond,
      now,
      name: 'node',
      shared: { buckets, processes: () => count, hosts: () => count },
      tookTokens: (source, count) => sources.push(...Array<string>(count).fill(source))
    }))
  t.teardown(() => {
    for (const limiter of limiters) limiter.close()
  })
  return { limiters, sources }
}

/** Floods limiters for a time, and returns when each request was sent. */
async function flood (limiters: readonly UpstreamLimiter[], ms: number): Promise<number[]> {
  const sentAtMs: number[] = []
  const untilMs = now() + ms
  const sendAll = async (limiter: UpstreamLimiter): Promise<void> => {
    while (now() < untilMs) {
      const slot = await limiter.acquire({ clientId: 'a', isProbe: false, timeoutMs: 60_000, signal: undefined })
      if (now() >= untilMs) return slot.release()
      slot.markSent()
      sentAtMs.push(now())
      slot.release()
    }
  }
  const sending = limiters.flatMap(limiter => Array.from({ length: 5 }, async () => await sendAll(limiter)))
  await Promise.all(sending)
  return sentAtMs
}

/** Returns the most requests within any second. */
function mostPerSecond (sentAtMs: readonly number[]): number {
  return Math.max(...sentAtMs.map(at => sentAtMs.filter(other => other >= at && other < at + 1000).length))
}

t.jobs = 4

t.test('processes at one limit send together the limit, and a fifth and one more at most', async t => {
  for (const [count, perSecond] of [[6, 60], [3, 5], [4, 400]] as const) {
    const { limiters, sources } = processesOf(t, count, perSecond, new LocalBuckets(now))
    const sentAtMs = await flood(limiters, 2500)
    t.ok(mostPerSecond(sentAtMs) <= perSecond * 1.2 + 1, `${mostPerSecond(sentAtMs)} of ${perSecond}`)
    t.ok(sentAtMs.length >= perSecond, `${sentAtMs.length} in 2.5 s, of ${perSecond} a second`)
    t.same(new Set(sources), new Set(['all']))
  }
})

t.test('one busy process among idle ones has the whole limit', async t => {
  const { limiters } = processesOf(t, 12, 50, new LocalBuckets(now))
  const sentAtMs = await flood(limiters.slice(0, 1), 2000)
  t.ok(sentAtMs.length >= 50, `${sentAtMs.length} in 2 s, of 50 a second`)
})

t.test('without their bucket processes send a share each, also of less than one a second', async t => {
  for (const [count, perSecond] of [[4, 2], [4, 40]] as const) {
    const { limiters, sources } = processesOf(t, count, perSecond, noBuckets)
    const sentAtMs = await flood(limiters, 2500)
    t.ok(sentAtMs.length <= count + 2.5 * perSecond, `${sentAtMs.length} in 2.5 s, of ${perSecond} a second`)
    t.ok(sentAtMs.length >= perSecond)
    t.same(new Set(sources), new Set(['share']))
  }
})

t.test('a request waits for no bucket while tokens are at hand', async t => {
  let asked = 0
  const buckets = { level: () => 0, take: async () => await (++asked <= 2 ? 0 : new Promise<number>(() => {})) }
  const [limiter] = processesOf(t, 1, 100, buckets).limiters as [UpstreamLimiter]
  const wish = { clientId: 'a', isProbe: false, timeoutMs: 60_000, signal: undefined }
  // The first takes one token, and the others that wait then one batch.
  const slots = await Promise.all(Array.from({ length: 3 }, async () => await limiter.acquire(wish)))
  t.equal(asked, 2)
  for (const slot of slots) slot.release()
  t.ok(limiter.tryAcquire(false))
  t.ok(limiter.tryAcquire(false))
  t.equal(asked, 2)
})

t.test('the token of a request that was not sent is used by the next, without a bucket', async t => {
  let asked = 0
  const buckets = { level: () => 0, take: async () => await (++asked === 1 ? 0 : new Promise<number>(() => {})) }
  const [limiter] = processesOf(t, 1, 100, buckets).limiters as [UpstreamLimiter]
  t.equal(limiter.tryAcquire(false), undefined, 'the first token comes from the bucket')
  t.equal(limiter.isFull, false, 'which is no reason to prefer another upstream')
  const slot = await limiter.acquire({ clientId: 'a', isProbe: false, timeoutMs: 60_000, signal: undefined })
  slot.release()
  const next = limiter.tryAcquire(false) as RequestSlot
  next.markSent()
  t.equal(asked, 1)
  // The same request again, on another connection, is paid at once.
  next.markSent()
  next.release()
  t.equal(limiter.tryAcquire(false), undefined)
  t.equal(asked, 2)
})

/** Builds the limiter of an upstream with a budget: 50 units at once, then some 4 a second. */
function budgeted (t: Test, costs = {}): UpstreamLimiter {
  const budget = { units: 500, windowSeconds: 100, costs: { view: 20, ...costs } }
  const limiter = new UpstreamLimiter({ maxConcurrent: 10, budget, now })
  t.teardown(() => limiter.close())
  return limiter
}

const wish = { clientId: 'a', isProbe: false, timeoutMs: 60_000, signal: undefined }

t.test('a request costs the units of its endpoint, which come back if it was not sent', async t => {
  const { budget } = budgeted(t)
  t.equal(budget?.left, 50)
  const limiter = budgeted(t)
  const slot = await limiter.acquire({ ...wish, units: 20 })
  t.equal(limiter.budget?.left, 30)
  slot.release()
  t.equal(limiter.budget?.left, 50, 'it was not sent')
  const sent = await limiter.acquire({ ...wish, units: 20 })
  sent.markSent()
  sent.markSent()
  sent.release()
  t.equal(limiter.budget?.left, 10, 'it was sent again on another connection')
  const costs = { units: 500, windowSeconds: 100, costs: { view: 20, default: 2 } }
  t.same(['view', 'info'].map(endpoint => unitCostOf(costs, endpoint)), [20, 2])
  t.same([unitCostOf({ ...costs, costs: {} }, 'view'), unitCostOf(null, 'view')], [1, 1])
})

t.test('below half of the units work that can wait stays away, and polls take turns with clients', async t => {
  const limiter = budgeted(t)
  t.equal(limiter.isBusy(), false)
  for (const units of [20, 20, 11]) (await limiter.acquire({ ...wish, units })).markSent()
  t.equal(limiter.isBusy(), true)
  const order: string[] = []
  const acquire = async (isProbe: boolean, name: string): Promise<void> => {
    const slot = await limiter.acquire({ ...wish, isProbe })
    order.push(name)
    slot.markSent()
  }
  await Promise.all([acquire(true, 'poll'), acquire(false, 'first'), acquire(true, 'poll'), acquire(false, 'second')])
  t.same(order, ['poll', 'first', 'poll', 'second'])
  t.equal(limiter.exhaustedLimit, undefined, 'nothing was rejected')
})

/** Builds two processes with one budget of 50 units at once, then some 4 a second; their bucket can be lost. */
async function budgetedProcesses (t: Test) {
  const buckets = new LocalBuckets(now)
  const state = { isLost: false }
  const reached = async (): Promise<void> => {
    if (state.isLost) throw new Error('connection lost')
  }
  const shared = {
    buckets: {
      take: async (...asked: Parameters<LocalBuckets['take']>) => await reached().then(() => buckets.take(...asked)),
      level: async (...asked: Parameters<LocalBuckets['level']>) => await reached().then(() => buckets.level(...asked))
    },
    processes: () => 2,
    hosts: () => 2
  }
  const budget = { units: 500, windowSeconds: 100, costs: {} }
  const limiters = [1, 2].map(() => new UpstreamLimiter({ maxConcurrent: 1000, budget, now, shared, name: 'node' }))
  t.teardown(() => limiters.forEach(limiter => limiter.close()))
  /** Spends units until there are none, and returns how many came at once. */
  const spend = async (limiter: UpstreamLimiter, most = Infinity): Promise<number> => {
    for (let spent = 0; spent < most; spent++) {
      const slot = await limiter.acquire({ ...wish, timeoutMs: 100 }).catch(() => undefined)
      if (slot === undefined) return spent
      slot.markSent()
      slot.release()
    }
    return most
  }
  return { limiters: limiters as [UpstreamLimiter, UpstreamLimiter], state, spend }
}

t.test('what all have spent before their bucket is lost is missing in the share of each', async t => {
  const { limiters: [one, other], state, spend } = await budgetedProcesses(t)
  t.equal(await spend(one, 40), 40)
  t.ok(other.budget !== undefined && other.budget.left > 0)
  await until(() => other.budget?.left !== undefined && other.budget.left < 20, 'it looks at what others took')
  state.isLost = true
  const spent = await spend(one) + await spend(other)
  t.ok(spent > 2 && spent < 20, `${spent} of the 10 that are left, and of some that come back`)
})

t.test('what was spent of a share is charged once the bucket of all processes is back', async t => {
  const { limiters: [one, other], state, spend } = await budgetedProcesses(t)
  state.isLost = true
  const away = await spend(one) + await spend(other)
  t.ok(away >= 48 && away < 60, `${away} of two shares of 25`)
  state.isLost = false
  for (const limiter of [one, other]) (await limiter.acquire(wish)).release()
  const back = await spend(one) + await spend(other)
  t.ok(back < 15, `${back} more, of those that come back`)
})

t.test('a read that would wait too long for units is rejected for the budget', async t => {
  const limiter = budgeted(t)
  limiter.budget?.correct(0)
  const late = limiter.acquire({ ...wish, units: 20, timeoutMs: 100 })
  await t.rejects(limiter.acquire({ ...wish, units: 20, timeoutMs: 100 }), { message: 'upstream queue full' })
  await t.rejects(late, { message: 'no upstream slot within budget' })
  t.equal(limiter.exhaustedLimit, 'budget')
  t.equal(limiter.isFull, true)
})

t.test('what an upstream says is left lowers the count, and never raises it', async t => {
  const limiter = budgeted(t)
  limiter.budget?.correct(12)
  t.equal(limiter.budget?.left, 12)
  limiter.budget?.correct(30)
  t.equal(limiter.budget?.left, 12)
})

t.test('whatever a window holds, no more units than its budget are granted in it', async t => {
  for (const [units, windowSeconds] of [[50_000, 300], [30_000, 300], [10, 1], [1, 1], [7, 86_400]] as const) {
    const { burst, perSecond, lifetimeMs } = unitRateOf({ units, windowSeconds, costs: {} })
    t.ok(burst + perSecond * (windowSeconds + lifetimeMs / 1000) <= units + 1e-6, String(units))
  }
})

t.test('slots are shared among live hosts, and each has one at least', async t => {
  let hosts = 1
  const limiter = new UpstreamLimiter({
    maxConcurrent: 8,
    requestsPerSecond: null,
    now,
    shared: { buckets: undefined, processes: () => hosts, hosts: () => hosts }
  })
  t.teardown(() => limiter.close())
  t.same(
    [1, 2, 3, 8, 100].map(count => {
      hosts = count
      return limiter.maxConcurrent
    }),
    [8, 4, 2, 1, 1]
  )
})
