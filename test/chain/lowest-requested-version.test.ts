import t from 'tap'
import { LowestRequestedVersion } from '../../src/chain/lowest-requested-version.js'
import { type Position } from '../../src/api/position.js'

const window = (oldest: bigint, head: bigint): Position => ({
  chainId: 4,
  head: { version: head, timestampUsec: 1n, epoch: 1n, blockHeight: 1n },
  oldest: { version: oldest, blockHeight: 0n }
})
const shown = window(100n, 1000n)

t.test('the lowest version that was asked for is told, and the head where that is none', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  t.equal(asked.valueIn(shown), 1000n)
  for (const version of [700n, 400n, 900n]) asked.record(version, shown)
  t.equal(asked.valueIn(shown), 400n)
  asked.record(99n, shown)
  t.equal(asked.valueIn(shown), 400n, 'what has fallen out of the window already is no part of it')
  asked.record(100n, shown)
  t.equal(asked.valueIn(shown), 100n, 'its end is')
})

t.test('what is told lies in the window that is shown, wherever that has moved meanwhile', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  asked.record(5000n, shown)
  t.equal(asked.valueIn(shown), 1000n, 'what is asked for too early is not above the head')
  asked.record(400n, shown)
  t.equal(asked.valueIn(window(600n, 2000n)), 600n)
})

t.test('what was asked for before a position was known is no word that history in the window is read', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  for (const version of [3n, 400n]) asked.record(version, undefined)
  t.equal(asked.valueIn(shown), 1000n, 'it may have fallen out long ago')
  asked.record(400n, shown)
  t.equal(asked.valueIn(shown), 400n, 'who goes on asking is heard')
})

t.test('a version is remembered for at least half of five minutes, and for no more than all of them', async t => {
  const clock = { ms: 1_000_000 }
  const asked = new LowestRequestedVersion(() => clock.ms)
  clock.ms += 149_999
  asked.record(300n, shown)
  clock.ms += 150_000
  t.equal(asked.valueIn(shown), 300n)
  asked.record(500n, shown)
  t.equal(asked.valueIn(shown), 300n)
  clock.ms += 1
  t.equal(asked.valueIn(shown), 500n, 'the half that it was asked for in is over, and the next too')
  clock.ms += 150_000
  t.equal(asked.valueIn(shown), 1000n)
  asked.record(200n, shown)
  clock.ms += 300_000
  t.equal(asked.valueIn(shown), 1000n, 'nobody looked for two halves')
})

t.test('each half has a number of its own, and another chain begins one', async t => {
  const clock = { ms: 0 }
  const asked = new LowestRequestedVersion(() => clock.ms)
  const first = asked.half
  clock.ms += 149_999
  asked.rotate()
  t.equal(asked.half, first)
  clock.ms += 1
  asked.rotate()
  t.not(asked.half, first)
  const second = asked.half
  asked.record(300n, shown)
  asked.clear()
  t.not(asked.half, second)
  t.equal(asked.valueIn(shown), 1000n)
})
