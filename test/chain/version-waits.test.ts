import t from 'tap'
import { VersionWaits } from '../../src/chain/version-waits.js'
import { type Position } from '../../src/api/position.js'
import { ChainEvents } from '../../src/chain/chain-events.js'
import { Tracker } from '../../src/chain/tracker.js'
import { until } from '../support/until.js'

const at = (version: number): Position => ({
  chainId: 4,
  head: { version: BigInt(version), timestampUsec: BigInt(version * 10), epoch: 1n, blockHeight: BigInt(version) },
  oldest: { version: 0n, blockHeight: 0n }
})

function waitingRoom (): { tracker: Tracker, arrivals: VersionWaits, clock: { ms: number }, asked: () => number } {
  let times = 0
  const clock = { ms: 0 }
  const events = new ChainEvents()
  const tracker = new Tracker(undefined, () => 0, events)
  const arrivals = new VersionWaits(tracker, {
    now: () => clock.ms,
    requestPoll: () => {
      times++
    }
  })
  events.servedHeadAdvanced.subscribe(() => {
    arrivals.finishReached()
  })
  return { tracker, arrivals, clock, asked: () => times }
}

// Waits do not keep the process alive, so an interval does.
const alive = setInterval(() => {}, 1000)
t.teardown(() => {
  clearInterval(alive)
})

const aTurn = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}

t.test('a wait ends when the position reaches its version, from an upstream or a replica', async t => {
  const { tracker, arrivals } = waitingRoom()
  const order: string[] = []
  const waits = [[100, 'first'], [150, 'learned'], [200, 'heard']] as const
  const all = Promise.all(waits.map(async ([version, name]) => {
    order.push(`${name} ${await arrivals.waitFor(BigInt(version), 60_000)}`)
  }))
  t.equal(arrivals.waiting, 3)
  tracker.learn(at(99), 'x-aptos-')
  await aTurn()
  t.same(order, [])
  tracker.learn(at(120), 'x-aptos-')
  await aTurn()
  t.same([order.length, arrivals.waiting], [1, 2])
  tracker.learn(at(150), 'x-aptos-')
  tracker.learnProven({ position: at(250), family: 'x-aptos-' })
  await all
  t.same(order, ['first reached', 'learned reached', 'heard reached'])
  t.equal(arrivals.waiting, 0)
  t.equal(await arrivals.waitFor(250n, 60_000), 'reached', 'a reached version needs no wait')
})

t.test('a wait ends when a remembered chain reaches its version', async t => {
  const { tracker, arrivals } = waitingRoom()
  tracker.learn(at(1000), 'x-aptos-')
  const reached = arrivals.waitFor(1100n, 60_000)
  const { head } = at(1200)
  tracker.setChain({ id: 5, generation: 3 }, {
    position: { ...at(1200), chainId: 5, head: { ...head, timestampUsec: 1n } },
    family: 'x-aptos-'
  }, false)
  t.equal(await reached, 'reached')
})

t.test('a wait that times out leaves nothing behind', async t => {
  const { tracker, arrivals, asked } = waitingRoom()
  t.equal(await arrivals.waitFor(100n, 1), 'timeout')
  t.same([arrivals.waiting, asked()], [0, 1])
  tracker.learn(at(200), 'x-aptos-')
  t.equal(arrivals.waiting, 0)
})

t.test('waits above the limit end at once, and a free place is taken again', async t => {
  const { tracker, arrivals } = waitingRoom()
  const waits = Array.from(
    { length: 1000 },
    async (_, nth) => await arrivals.waitFor(BigInt(100 + nth), 60_000, `client ${nth % 5}`)
  )
  t.equal(await arrivals.waitFor(100n, 60_000), 'too_many_waits')
  t.equal(arrivals.waiting, 1000)
  tracker.learn(at(100), 'x-aptos-')
  t.equal(await waits[0], 'reached')
  const late = arrivals.waitFor(5000n, 60_000)
  t.equal(arrivals.waiting, 1000)
  tracker.learn(at(6000), 'x-aptos-')
  t.same(new Set(await Promise.all([...waits, late])), new Set(['reached']))
  t.equal(arrivals.waiting, 0)
})

t.test('upstreams are polled repeatedly while requests wait, at a rate independent of their number', async t => {
  const { tracker, arrivals, clock, asked } = waitingRoom()
  const waits = [arrivals.waitFor(100n, 60_000), arrivals.waitFor(100n, 60_000)]
  t.equal(asked(), 1)
  for (let nth = 0; nth < 10; nth++) await arrivals.waitFor(1000n, 1)
  t.ok(asked() <= 2)
  await until(() => asked() >= 3, 'they are retried')
  tracker.learn(at(100), 'x-aptos-')
  await Promise.all(waits)
  const before = asked()
  for (let nth = 0; nth < 5; nth++) await arrivals.waitFor(1000n, 1)
  t.equal(asked(), before, 'polled a moment ago')
  clock.ms += 100
  await arrivals.waitFor(1000n, 1)
  t.equal(asked(), before + 1)
})

t.test('one client takes at most a quarter of all waits, so others can wait too', async t => {
  const { tracker, arrivals } = waitingRoom()
  const greedy = Array.from({ length: 250 }, async () => await arrivals.waitFor(5000n, 60_000, 'greedy'))
  t.equal(await arrivals.waitFor(5000n, 60_000, 'greedy'), 'too_many_waits')
  const other = arrivals.waitFor(150n, 60_000, 'other')
  tracker.learn(at(200), 'x-aptos-')
  t.equal(await other, 'reached')
  tracker.learn(at(6000), 'x-aptos-')
  t.same(new Set(await Promise.all(greedy)), new Set(['reached']))
  const again = arrivals.waitFor(7000n, 60_000, 'greedy')
  t.equal(arrivals.waiting, 1, 'a finished wait frees its place')
  arrivals.close()
  t.equal(await again, 'timeout', 'closing ends all waits')
  t.equal(await arrivals.waitFor(7000n, 60_000), 'timeout', 'and later ones')
})
