import t from 'tap'
import { LowestRequestedVersion } from '../../src/proxy/lowest-requested-version.js'
import { type Position } from '../../src/api/position.js'

const window = (oldest: bigint, head: bigint): Position => ({
  chainId: 4,
  head: { version: head, timestampUsec: 1n, epoch: 1n, blockHeight: 1n },
  oldest: { version: oldest, blockHeight: 0n }
})
const shown = window(100n, 1000n)

t.test('the lowest requested version is reported, or the head if there is none', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  t.equal(asked.valueIn(shown), 1000n)
  for (const version of [700n, 400n, 900n]) asked.record(version, shown)
  t.equal(asked.valueIn(shown), 400n)
  asked.record(99n, shown)
  t.equal(asked.valueIn(shown), 400n, 'a version below the window does not count')
  asked.record(100n, shown)
  t.equal(asked.valueIn(shown), 100n, 'the end of the window counts')
})

t.test('the reported version lies within the current window', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  asked.record(5000n, shown)
  t.equal(asked.valueIn(shown), 1000n, 'a version above the head counts as the head')
  asked.record(400n, shown)
  t.equal(asked.valueIn(window(600n, 2000n)), 600n)
})

t.test('versions requested before a position is known are ignored', async t => {
  const asked = new LowestRequestedVersion(() => 0)
  for (const version of [3n, 400n]) asked.record(version, undefined)
  t.equal(asked.valueIn(shown), 1000n, 'it may be pruned long since')
  asked.record(400n, shown)
  t.equal(asked.valueIn(shown), 400n, 'a later request counts')
})

t.test('a requested version is remembered for 2.5 to 5 minutes', async t => {
  const clock = { ms: 1_000_000 }
  const asked = new LowestRequestedVersion(() => clock.ms)
  clock.ms += 149_999
  asked.record(300n, shown)
  clock.ms += 150_000
  t.equal(asked.valueIn(shown), 300n)
  asked.record(500n, shown)
  t.equal(asked.valueIn(shown), 300n)
  clock.ms += 1
  t.equal(asked.valueIn(shown), 500n, 'its half and the next one are over')
  clock.ms += 150_000
  t.equal(asked.valueIn(shown), 1000n)
  asked.record(200n, shown)
  clock.ms += 300_000
  t.equal(asked.valueIn(shown), 1000n, 'two halves passed without a look')
})

t.test('each half has its own number, and another chain starts a new half', async t => {
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
