import t from 'tap'
import { Space } from '../../src/chain/space.js'
import { VersionWaits } from '../../src/chain/version-waits.js'
import { type Position } from '../../src/api/position.js'
import { ChainEvents } from '../../src/chain/chain-events.js'
import { Tracker } from '../../src/chain/tracker.js'
import { WaiterPolls } from '../../src/upstreams/head-pollers.js'
import { until } from '../support/until.js'

const at = (version: number): Position => ({
  chainId: 4,
  head: { version: BigInt(version), timestampUsec: BigInt(version * 10), epoch: 1n, blockHeight: BigInt(version) },
  oldest: { version: 0n, blockHeight: 0n }
})

function startVersionWaits (): {
  tracker: Tracker,
  versionWaits: VersionWaits,
  clock: { ms: number },
  pollCount: () => number
} {
  let times = 0
  const clock = { ms: 0 }
  const events = new ChainEvents()
  const tracker = new Tracker(undefined, () => 0, events)
  const waiterPolls = new WaiterPolls(() => {
    times++
  }, () => clock.ms)
  const versionWaits = new VersionWaits(tracker, waiterPolls)
  events.servedHeadAdvanced.subscribe(() => {
    versionWaits.finishReached()
  })
  return { tracker, versionWaits, clock, pollCount: () => times }
}

// Waits do not keep the process alive, so an interval does.
const alive = setInterval(() => {}, 1000)
t.teardown(() => {
  clearInterval(alive)
})

const eventLoopTurn = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}

t.test('a wait ends when the position reaches its version, from an upstream or a replica', async t => {
  const { tracker, versionWaits } = startVersionWaits()
  const order: string[] = []
  const waits = [[100, 'first'], [150, 'learned'], [200, 'reported']] as const
  const all = Promise.all(waits.map(async ([version, name]) => {
    order.push(`${name} ${await versionWaits.waitFor(BigInt(version), 60_000)}`)
  }))
  t.equal(versionWaits.waiting, 3)
  tracker.learn(at(99), 'x-aptos-')
  await eventLoopTurn()
  t.same(order, [])
  tracker.learn(at(120), 'x-aptos-')
  await eventLoopTurn()
  t.same([order.length, versionWaits.waiting], [1, 2])
  tracker.learn(at(150), 'x-aptos-')
  tracker.learnProven({ position: at(250), family: 'x-aptos-' })
  await all
  t.same(order, ['first reached', 'learned reached', 'reported reached'])
  t.equal(versionWaits.waiting, 0)
  t.equal(await versionWaits.waitFor(250n, 60_000), 'reached', 'a reached version needs no wait')
})

t.test('a wait ends when a remembered chain reaches its version', async t => {
  const { tracker, versionWaits } = startVersionWaits()
  tracker.learn(at(1000), 'x-aptos-')
  const reached = versionWaits.waitFor(1100n, 60_000)
  const { head } = at(1200)
  tracker.setSpace(Space.begin(5), {
    position: { ...at(1200), chainId: 5, head: { ...head, timestampUsec: 1n } },
    family: 'x-aptos-'
  }, false)
  t.equal(await reached, 'reached')
})

t.test('a wait that times out leaves nothing behind', async t => {
  const { tracker, versionWaits, pollCount } = startVersionWaits()
  t.equal(await versionWaits.waitFor(100n, 1), 'timeout')
  t.same([versionWaits.waiting, pollCount()], [0, 1])
  tracker.learn(at(200), 'x-aptos-')
  t.equal(versionWaits.waiting, 0)
})

t.test('waits above the limit end at once, and a free place is taken again', async t => {
  const { tracker, versionWaits } = startVersionWaits()
  const waits = Array.from(
    { length: 1000 },
    async (_, nth) => await versionWaits.waitFor(BigInt(100 + nth), 60_000, `client ${nth % 5}`)
  )
  t.equal(await versionWaits.waitFor(100n, 60_000), 'too_many_waits')
  t.equal(versionWaits.waiting, 1000)
  tracker.learn(at(100), 'x-aptos-')
  t.equal(await waits[0], 'reached')
  const late = versionWaits.waitFor(5000n, 60_000)
  t.equal(versionWaits.waiting, 1000)
  tracker.learn(at(6000), 'x-aptos-')
  t.same(new Set(await Promise.all([...waits, late])), new Set(['reached']))
  t.equal(versionWaits.waiting, 0)
})

t.test('upstreams are polled repeatedly while requests wait, at a rate independent of their number', async t => {
  const { tracker, versionWaits, clock, pollCount } = startVersionWaits()
  const waits = [versionWaits.waitFor(100n, 60_000), versionWaits.waitFor(100n, 60_000)]
  t.equal(pollCount(), 1)
  for (let nth = 0; nth < 10; nth++) await versionWaits.waitFor(1000n, 1)
  t.ok(pollCount() <= 2)
  await until(() => pollCount() >= 3, 'the upstream was polled again')
  tracker.learn(at(100), 'x-aptos-')
  await Promise.all(waits)
  const before = pollCount()
  for (let nth = 0; nth < 5; nth++) await versionWaits.waitFor(1000n, 1)
  t.equal(pollCount(), before, 'polled a moment ago')
  clock.ms += 100
  await versionWaits.waitFor(1000n, 1)
  t.equal(pollCount(), before + 1)
})

t.test('one client takes at most a quarter of all waits, so others can wait too', async t => {
  const { tracker, versionWaits } = startVersionWaits()
  const greedy = Array.from({ length: 250 }, async () => await versionWaits.waitFor(5000n, 60_000, 'greedy'))
  t.equal(await versionWaits.waitFor(5000n, 60_000, 'greedy'), 'too_many_waits')
  const other = versionWaits.waitFor(150n, 60_000, 'other')
  tracker.learn(at(200), 'x-aptos-')
  t.equal(await other, 'reached')
  tracker.learn(at(6000), 'x-aptos-')
  t.same(new Set(await Promise.all(greedy)), new Set(['reached']))
  const again = versionWaits.waitFor(7000n, 60_000, 'greedy')
  t.equal(versionWaits.waiting, 1, 'a finished wait frees its place')
  versionWaits.close()
  t.equal(await again, 'timeout', 'closing ends all waits')
  t.equal(await versionWaits.waitFor(7000n, 60_000), 'timeout', 'and later ones')
})
