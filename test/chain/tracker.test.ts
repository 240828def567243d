import fc from 'fast-check'
import t from 'tap'
import { type Position } from '../../src/api/position.js'
import { Space } from '../../src/chain/space.js'
import { Tracker, ChainEvents } from '../../src/chain/tracker.js'
import { check, seedTitle } from '../support/properties.js'

const at = (version: number, time = version * 10, oldest = 0, chainId = 4): Position => ({
  chainId,
  head: { version: BigInt(version), timestampUsec: BigInt(time), epoch: 1n, blockHeight: BigInt(version) },
  oldest: { version: BigInt(oldest), blockHeight: BigInt(oldest) }
})

t.test(`the served position never goes back, in any order of responses (${seedTitle})`, async () => {
  check(fc.property(fc.array(fc.nat(100), { minLength: 1 }), versions => {
    const tracker = new Tracker(undefined, () => 0)
    let served = -1n
    for (const version of versions) {
      tracker.learn(at(version), 'x-aptos-')
      const now = tracker.position?.head.version ?? -1n
      if (now < served) return false
      served = now
    }
    return served === BigInt(Math.max(...versions))
  }))
})

t.test('only a head of our chain that is new here counts as news of a peer', async t => {
  let now = 0
  const tracker = new Tracker(undefined, () => now)
  tracker.learn(at(100), 'x-aptos-')
  const report = (position: Position): number => {
    tracker.learnOfPeer({ position, family: 'x-aptos-' })
    return tracker.peerHeadAgeMs
  }
  t.equal(report(at(100)), Infinity, 'known here')
  t.equal(report(at(110, 1100, 0, 9)), Infinity, 'of another chain')
  t.equal(report(at(110)), 0)
  now = 5
  t.equal(report(at(110)), 5)
})

t.test('head and oldest version come from the same response', async t => {
  const tracker = new Tracker(undefined, () => 0)
  const ahead = at(100, 1000, 50)
  tracker.learn(ahead, 'x-aptos-')
  t.equal(tracker.learn(at(90, 900, 10), 'x-aptos-'), 'behind')
  t.equal(tracker.position, ahead)
})

t.test('a position that repeats stays one object, and a changed one replaces it', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(100), 'x-aptos-')
  const first = tracker.stamped
  tracker.learn(at(100), 'x-aptos-')
  t.equal(tracker.stamped, first)
  tracker.learn(at(100), 'x-movement-')
  t.equal(tracker.family, 'x-movement-')
  tracker.learn(at(100), 'x-movement-', 'key')
  t.equal(tracker.stamped?.encryptionKey, 'key')
})

t.test('at the same head the latest response decides the oldest version', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(100, 1000, 50), 'x-aptos-')
  tracker.learn(at(100, 1000, 60), 'x-aptos-')
  t.equal(tracker.position?.oldest.version, 60n)
})

t.test('the first response decides the chain, unless a chain id is configured', async t => {
  const first = new Tracker(undefined, () => 0)
  t.equal(first.space, undefined)
  t.equal(first.learn(at(1, 10, 0, 7), 'x-aptos-'), 'ahead')
  t.equal(first.space?.chainId, 7)
  t.equal(first.learn(at(2, 20, 0, 8), 'x-aptos-'), 'other_chain')
  t.equal(first.position?.head.version, 1n, 'another chain is never served')
  const configured = new Tracker(8, () => 0)
  t.equal(configured.space?.chainId, 8)
  t.equal(configured.learn(at(1, 10, 0, 7), 'x-aptos-'), 'other_chain')
  t.equal(configured.position, undefined)
})

t.test('a lower version with a later time is a reset and begins a new space', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(1000, 10_000), 'x-aptos-')
  const before = tracker.space ?? Space.begin(4)
  t.ok(tracker.isCurrent(before))
  t.equal(tracker.learn(at(5, 20_000), 'x-aptos-'), 'reset')
  t.notOk(tracker.isCurrent(before), 'what began before is not current')
  t.not(tracker.space?.name, before.name)
  t.equal(tracker.position?.head.version, 5n)
  t.equal(tracker.learn(at(1001, 10_010), 'x-aptos-'), 'other_chain', 'a late response of the old chain is rejected')
  t.equal(tracker.learn(at(6, 20_010), 'x-aptos-'), 'ahead')
})

t.test('the same version with another time is another chain or a reset', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(10, 100), 'x-aptos-')
  t.equal(tracker.learn(at(10, 99), 'x-aptos-'), 'other_chain')
  t.equal(tracker.learn(at(10, 101), 'x-aptos-'), 'reset')
})

t.test('a lower version with an earlier time is a lagging upstream, and blocks may share a time', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(10, 100), 'x-aptos-')
  const before = tracker.space
  t.equal(tracker.learn(at(5, 50), 'x-aptos-'), 'behind')
  t.equal(tracker.learn(at(9, 100), 'x-aptos-'), 'behind')
  t.equal(tracker.learn(at(11, 100), 'x-aptos-'), 'ahead')
  t.equal(tracker.space, before)
})

t.test('the position\'s age is the time since a response confirmed it', async t => {
  let now = 0
  const tracker = new Tracker(undefined, () => now)
  t.equal(tracker.ageMs, Infinity)
  tracker.learn(at(10), 'x-aptos-')
  now = 500
  t.equal(tracker.ageMs, 500)
  tracker.learn(at(5), 'x-aptos-')
  t.equal(tracker.ageMs, 500, 'an older response confirms nothing')
  tracker.learn(at(10), 'x-movement-')
  t.equal(tracker.ageMs, 0)
  t.equal(tracker.family, 'x-movement-')
})

t.test('with a shared place there is no space until one is chosen; a reset begins one at once', t => {
  const ended: unknown[] = []
  const events = new ChainEvents()
  events.reset.subscribe(({ from }) => {
    ended.push(from)
  })
  const tracker = new Tracker(undefined, () => 0, events, true)
  t.equal(tracker.learn(at(1000), 'x-aptos-'), 'ahead')
  t.same([tracker.space, tracker.chainId], [undefined, 4])
  const chosen = Space.begin(4)
  tracker.setSpace(chosen, undefined, true)
  t.same([tracker.space, tracker.position?.head.version], [chosen, 1000n])
  t.equal(tracker.learn(at(5, 20_000), 'x-aptos-'), 'reset')
  t.same([ended, tracker.position?.head.version], [[chosen.name], 5n])
  t.not(tracker.space, chosen)
  t.end()
})

t.test('a position from a replica raises the served one, never lowers it, and must match the chain', async t => {
  const tracker = new Tracker(undefined, () => 0)
  const stamped = (position: Position): { position: Position, family: string } => ({ position, family: 'x-other-' })
  t.equal(tracker.learnProven(stamped(at(1))), false, 'no upstream has responded yet')
  tracker.learn(at(100), 'x-aptos-')
  t.equal(tracker.learnProven(stamped(at(90))), true)
  t.same([tracker.position, tracker.family], [at(100), 'x-aptos-'])
  t.equal(tracker.learnProven(stamped(at(110))), true)
  t.same([tracker.stamped, tracker.position], [stamped(at(110)), at(110)])
  t.equal(tracker.learnProven(stamped(at(120, 50))), false, 'a higher version with an earlier time')
  t.equal(tracker.learnProven(stamped(at(50, 5000))), false, 'a lower version with a later time')
  t.equal(tracker.learnProven(stamped(at(130, 1300, 0, 9))), false, 'another chain id')
  t.equal(tracker.position?.head.version, 110n)
  tracker.setSpace(Space.begin(4), undefined, false)
  t.equal(tracker.position, undefined)
  t.equal(tracker.learnProven(stamped(at(7))), true, 'the first position')
  t.equal(tracker.position?.head.version, 7n)
})

t.test('an adopted space brings its head: the higher one wins, a contradicting one is replaced', async t => {
  const tracker = new Tracker(undefined, () => 0, undefined, true)
  tracker.learn(at(100), 'x-aptos-')
  tracker.setSpace(Space.begin(4), { position: at(80), family: 'x-aptos-' }, true)
  t.equal(tracker.position?.head.version, 100n)
  tracker.setSpace(Space.begin(4), { position: at(120), family: 'x-aptos-' }, true)
  t.equal(tracker.position?.head.version, 120n)
  tracker.setSpace(Space.begin(4), { position: at(30, 9000), family: 'x-aptos-' }, false)
  t.equal(tracker.position?.head.version, 30n)
})

t.test('clearing a remembered chain removes all but a configured chain id', async t => {
  for (const configured of [undefined, 4]) {
    const tracker = new Tracker(configured, () => 0, undefined, true)
    tracker.setSpace(Space.begin(4), { position: at(100), family: 'x-aptos-' }, false)
    tracker.clearSpace()
    t.same([tracker.space, tracker.chainId, tracker.position], [undefined, configured, undefined])
  }
})

t.test('listeners are notified of an advanced position, and not of a confirmed one', async t => {
  let times = 0
  const events = new ChainEvents()
  events.headAdvanced.subscribe(() => {
    times++
  })
  const tracker = new Tracker(undefined, () => 0, events)
  for (const version of [10, 10, 9, 11]) tracker.learn(at(version), 'x-aptos-')
  t.equal(times, 2)
})

t.test('the served oldest version is the one set for all upstreams, until the chain changes', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.setOldest({ version: 5n, blockHeight: 1n })
  t.equal(tracker.position, undefined, 'without a head there is no position')
  tracker.learn(at(100), 'x-aptos-')
  t.same(tracker.position?.oldest, { version: 5n, blockHeight: 1n })
  tracker.learn(at(110), 'x-aptos-')
  t.same([tracker.position?.head.version, tracker.position?.oldest], [110n, { version: 5n, blockHeight: 1n }])
  const served = tracker.stamped
  tracker.setOldest({ version: 5n, blockHeight: 1n })
  t.equal(tracker.stamped, served, 'an equal oldest version changes nothing')
  tracker.setOldest({ version: 60n, blockHeight: 6n })
  t.same(tracker.position?.oldest, { version: 60n, blockHeight: 6n })
  t.equal(tracker.learn(at(20, 90_000), 'x-aptos-'), 'reset')
  t.same(tracker.position, at(20, 90_000))
  for (
    const invalidate of [(): void => {
      tracker.setSpace(Space.begin(4), undefined, false)
    }, () => {
      tracker.clearSpace()
    }]
  ) {
    tracker.setOldest({ version: 7n, blockHeight: 7n })
    invalidate()
    tracker.learn(at(30, 90_010), 'x-aptos-')
    t.same(tracker.position, at(30, 90_010))
  }
})

t.test('an oldest version above the served head waits until the head reaches it', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(100), 'x-aptos-')
  tracker.setOldest({ version: 5n, blockHeight: 1n })
  // An upstream read by an audit may have a higher head than the last poll.
  tracker.setOldest({ version: 101n, blockHeight: 11n })
  t.same(tracker.position?.oldest, { version: 5n, blockHeight: 1n })
  tracker.learnProven({ position: at(100), family: 'x-aptos-' })
  t.same(tracker.position?.oldest, { version: 5n, blockHeight: 1n })
  tracker.learn(at(101), 'x-aptos-')
  t.same(tracker.position?.oldest, { version: 101n, blockHeight: 11n })
})

t.test('a held head has the oldest version of all upstreams too', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(100), 'x-aptos-')
  tracker.hold({ position: at(90), family: 'x-aptos-' })
  tracker.setOldest({ version: 5n, blockHeight: 1n })
  t.same([tracker.position?.head.version, tracker.position?.oldest], [90n, { version: 5n, blockHeight: 1n }])
})

t.test('while following, other responses raise no served head, but the newest one is known', async t => {
  const advanced: Array<bigint | undefined> = []
  const events = new ChainEvents()
  const tracker = new Tracker(undefined, () => 0, events)
  events.servedHeadAdvanced.subscribe(() => {
    advanced.push(tracker.position?.head.version)
  })
  const stamped = (version: number): { position: Position, family: string } => ({
    position: at(version),
    family: 'x-aptos-'
  })
  t.equal(tracker.newestHead, undefined)
  tracker.learn(at(100), 'x-aptos-')
  tracker.follow(stamped(100))
  t.equal(tracker.learn(at(105), 'x-aptos-'), 'ahead')
  t.equal(tracker.learn(at(103), 'x-aptos-'), 'ahead')
  t.equal(tracker.learn(at(90), 'x-aptos-'), 'behind')
  t.same([tracker.position?.head.version, tracker.newestHead?.version], [100n, 105n])
  tracker.follow(stamped(102))
  t.same([tracker.position?.head.version, tracker.newestHead?.version], [102n, 105n])
  tracker.follow(stamped(101))
  t.equal(tracker.position?.head.version, 102n, 'the served head never goes back')
  tracker.follow(stamped(110))
  t.same([tracker.position?.head.version, tracker.newestHead?.version], [110n, 110n])
  t.same(advanced, [100n, 102n, 110n])
})

t.test('when following ends, the newest known head is served', async t => {
  const tracker = new Tracker(undefined, () => 0)
  const first = new Tracker(undefined, () => 0)
  first.follow({ position: at(7), family: 'x-aptos-' })
  t.equal(first.position?.head.version, 7n)
  tracker.follow(undefined)
  t.equal(tracker.position, undefined)
  tracker.learn(at(100), 'x-aptos-')
  tracker.follow({ position: at(100), family: 'x-aptos-' })
  tracker.learn(at(105), 'x-aptos-')
  tracker.follow(undefined)
  t.equal(tracker.position?.head.version, 105n)
  tracker.learn(at(106), 'x-aptos-')
  t.equal(tracker.position?.head.version, 106n, 'responses raise it again')
})

t.test('a head that a client has seen raises the served one, unless it is of another chain', async t => {
  const tracker = new Tracker(undefined, () => 0)
  const show = (position: Position): bigint | undefined => {
    tracker.show({ position, family: 'x-aptos-' })
    return tracker.position?.head.version
  }
  t.equal(show(at(100)), 100n, 'the first one')
  tracker.follow({ position: at(101), family: 'x-aptos-' })
  t.equal(show(at(105)), 105n, 'also while following')
  t.equal(show(at(103)), 105n)
  t.equal(show(at(110, 1)), 105n, 'a higher version with an earlier time')
})

t.test('the followed head has the oldest version of all upstreams, and no reset outlasts it', async t => {
  const tracker = new Tracker(undefined, () => 0)
  tracker.learn(at(100), 'x-aptos-')
  tracker.setOldest({ version: 7n, blockHeight: 7n })
  tracker.follow({ position: at(101), family: 'x-aptos-' })
  t.same(tracker.position?.oldest, { version: 7n, blockHeight: 7n })
  tracker.learn(at(105), 'x-aptos-')
  t.equal(tracker.learn(at(5, 20_000), 'x-aptos-'), 'reset')
  t.same([tracker.position?.head.version, tracker.newestHead?.version], [5n, 5n])
  tracker.learn(at(6, 20_010), 'x-aptos-')
  t.equal(tracker.position?.head.version, 6n, 'a new chain is not followed yet')
})

t.test('a sixth change of chain within a minute is another chain, until the minute is over', async t => {
  let nowMs = 0
  const now = (): number => nowMs
  const tracker = new Tracker(undefined, now)
  tracker.learn(at(100, 1000), 'x-aptos-')
  const lower = (nth: number): string => tracker.learn(at(100 - nth, 1000 + nth), 'x-aptos-')
  t.same([1, 2, 3, 4, 5, 6].map(lower), [...Array<string>(5).fill('reset'), 'other_chain'])
  nowMs = 60_000
  t.equal(lower(6), 'reset')
})
