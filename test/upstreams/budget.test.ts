import t, { type Test } from 'tap'
import {
  Budget,
  type BudgetOptions,
  NoSlotError,
  type UpstreamSlot,
  type SlotRequest
} from '../../src/upstreams/budget.js'
import { FairQueue } from '../../src/upstreams/fair-queue.js'

function budgetOf (t: Test, change: Partial<BudgetOptions> = {}): Budget {
  const budget = new Budget({ maxConcurrent: 1, requestsPerSecond: null, now: () => performance.now(), ...change })
  t.teardown(() => {
    budget.close()
  })
  return budget
}

const wish = (change: Partial<SlotRequest> = {}): SlotRequest => ({
  clientId: 'a',
  isProbe: false,
  timeoutMs: 60_000,
  signal: undefined,
  ...change
})

/** Waits for turns under names, and tells who has had one or was refused, in that order. */
function line (
  budget: Budget
): { join: (name: string, change?: Partial<SlotRequest>) => void, turns: UpstreamSlot[], told: string[] } {
  const told: string[] = []
  const turns: UpstreamSlot[] = []
  return {
    turns,
    told,
    join: (name, change) => {
      budget.acquire(wish({ clientId: name[0], ...change })).then(
        turn => {
          told.push(name)
          turns.push(turn)
        },
        error => {
          told.push(`${name} ${error instanceof NoSlotError ? 'refused' : String(error.name)}`)
        }
      )
    }
  }
}

const settled = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}

/** Ends each turn as it comes, until nobody waits. */
async function serveAll (turns: UpstreamSlot[], held: UpstreamSlot | undefined): Promise<void> {
  for (let turn: UpstreamSlot | undefined = held; turn !== undefined; turn = turns.shift()) {
    turn.release()
    await settled()
  }
}

t.test('a turn is had at once where one is free, and given back it is the next one\'s', async t => {
  const budget = budgetOf(t, { maxConcurrent: 2 })
  const first = budget.tryAcquire(false)
  t.ok(first)
  t.ok(budget.tryAcquire(false))
  t.equal(budget.tryAcquire(false), undefined)
  t.equal(budget.tryAcquire(true), undefined, 'varve\'s own questions are no more than there may be either')
  const waiting = budget.acquire(wish())
  t.same([budget.inFlight, budget.queued], [2, 1])
  first?.release()
  t.ok(await waiting)
  t.same([budget.inFlight, budget.queued], [2, 0])
})

t.test('clients take turns, however many one of them wants, and varve\'s own questions come first', async t => {
  const budget = budgetOf(t)
  const held = budget.tryAcquire(false)
  const { join, turns, told } = line(budget)
  for (const name of ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']) join(name)
  for (const name of ['own1', 'own2', 'own3']) join(name, { isProbe: true })
  await serveAll(turns, held)
  t.same(
    told,
    ['own1', 'a1', 'own2', 'b1', 'own3', 'c1', 'a2', 'b2', 'a3', 'a4'],
    'though not twice in a row: whoever may ask little would ask nothing else'
  )
  t.same([budget.inFlight, budget.queued], [0, 0])
})

t.test('a full queue refuses at once; whoever has most waiting makes room for who has less, and nobody for who has as much', async t => {
  const budget = budgetOf(t)
  const held = budget.tryAcquire(false)
  const { join, turns, told } = line(budget)
  for (let nth = 1; nth <= 7; nth++) join(`a${nth}`)
  join('a8')
  await settled()
  t.same(told, ['a8 refused'])
  for (const name of ['b1', 'b2', 'b3', 'b4', 'c1']) join(name)
  await settled()
  t.same(
    new Set(told.slice(1)),
    new Set(['a7 refused', 'a6 refused', 'a5 refused', 'b4 refused', 'a4 refused']),
    'an exchange that would only turn the difference around is none'
  )
  t.equal(budget.queued, 7)
  for (let nth = 1; nth <= 20; nth++) join(`own${nth}`, { isProbe: true })
  t.equal(budget.queued, 27, 'varve\'s own are never refused')
  told.length = 0
  await serveAll(turns, held)
  t.equal(told.length, 27)
})

t.test('who waits leaves when its time is over, or when it is taken back, and then is in nobody\'s way', async t => {
  const budget = budgetOf(t)
  const held = budget.tryAcquire(false)
  await t.rejects(budget.acquire(wish({ timeoutMs: 5 })), { message: 'no upstream slot' })
  const { join, turns, told } = line(budget)
  const gone = new AbortController()
  join('a1', { signal: gone.signal })
  join('own', { signal: gone.signal, isProbe: true })
  join('b1')
  gone.abort()
  t.equal(budget.queued, 1)
  await serveAll(turns, held)
  t.same(told.sort(), ['a1 AbortError', 'b1', 'own AbortError'])
})

t.test('so many a second and no more are sent, and the next when the first of them is a second old', async t => {
  const budget = budgetOf(t, { maxConcurrent: 8, requestsPerSecond: 3 })
  const sentAt: number[] = []
  await Promise.all(Array.from({ length: 5 }, async () => {
    const turn = budget.tryAcquire(false) ?? await budget.acquire(wish({ timeoutMs: 5000 }))
    sentAt.push(performance.now())
    turn.markSent()
    turn.release()
  }))
  const [first = 0, , , fourth = 0, fifth = 0] = sentAt
  t.ok(fourth - first >= 1000 && fifth - first < 1900, `${fourth - first} ms, ${fifth - first} ms`)
})

t.test('what has a turn and is not sent yet keeps the next from being sent, and what never is does not', async t => {
  const budget = budgetOf(t, { maxConcurrent: 8, requestsPerSecond: 1 })
  const connecting = budget.tryAcquire(false)
  const { join, turns, told } = line(budget)
  join('a1')
  await settled()
  t.same(told, [])
  connecting?.release()
  await settled()
  t.same(told, ['a1'])
  const [turn] = turns
  turn?.markSent()
  turn?.markSent()
  turn?.release()
  t.equal(budget.tryAcquire(false), undefined)
})

t.test('what could not be served in time at the pace of a node is refused at once, and not when its time is over', async t => {
  const budget = budgetOf(t, { maxConcurrent: 100, requestsPerSecond: 2 })
  for (const turn of [budget.tryAcquire(false), budget.tryAcquire(false)]) turn?.markSent()
  const { join, told } = line(budget)
  for (let nth = 1; nth <= 7; nth++) join(`a${nth}`, { timeoutMs: 2500 })
  await settled()
  t.same(told, ['a7 refused'], 'within three seconds six can be')
})

t.test('a budget is tight when half of it is used up or something waits; whoever asks does not count itself', async t => {
  const budget = budgetOf(t, { maxConcurrent: 4 })
  t.notOk(budget.isBusy())
  const turns = [budget.tryAcquire(false), budget.tryAcquire(false)]
  t.same([budget.isBusy(), budget.isBusy(1)], [true, false])
  turns[0]?.release()
  t.notOk(budget.isBusy())
  const paced = budgetOf(t, { maxConcurrent: 100, requestsPerSecond: 4 })
  for (let nth = 0; nth < 2; nth++) paced.tryAcquire(false)?.markSent()
  t.same([paced.isBusy(), paced.isBusy(1)], [true, false])
  const full = budgetOf(t)
  full.tryAcquire(false)
  t.notOk(full.isBusy(1))
  const waiting = full.acquire(wish())
  t.ok(full.isBusy(1))
  full.close()
  await t.rejects(waiting, { message: 'no upstream slot' }, 'a node that is closed has turns for nobody')
})

t.test('of a queue nothing is left when nobody waits', async t => {
  const queue = new FairQueue<{ name: string }>()
  const [one, two] = [{ name: 'one' }, { name: 'two' }]
  queue.add('a', one)
  queue.add('a', two)
  queue.remove('a', two)
  queue.remove('a', two)
  queue.remove('b', one)
  t.equal(queue.size, 1)
  t.equal(queue.shift(), one)
  t.equal(queue.shift(), undefined)
  t.equal(queue.tailOfLongest('a'), undefined)
})

t.test('a node that leaves is idle when nothing is under way and nobody waits either, be it for the next second', async t => {
  const clock = { ms: 0 }
  const budget = budgetOf(t, { requestsPerSecond: 1, now: () => clock.ms })
  const turn = budget.tryAcquire(false)
  const { join, told } = line(budget)
  join('b', { timeoutMs: 300 })
  let isIdle = false
  const idle = budget.waitUntilIdle().then(() => {
    isIdle = true
  })
  turn?.markSent()
  turn?.release()
  await settled()
  t.notOk(isIdle, 'one still waits for its turn')
  await idle
  t.same(told, ['b refused'])
  await budget.waitUntilIdle()
})
