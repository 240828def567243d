import t from 'tap'
import { LowestRecentRequest } from '../../src/proxy/lowest-recent-request.js'
import { type Position } from '../../src/api/position.js'

const window = (oldest: bigint, head: bigint): Position => ({
  chainId: 4,
  head: { version: head, timestampUsec: 1n, epoch: 1n, blockHeight: 1n },
  oldest: { version: oldest, blockHeight: 0n }
})
const servedWindow = window(100n, 1000n)

t.test('the lowest requested version is reported, or the head if there is none', async t => {
  const lowest = new LowestRecentRequest(() => 0)
  t.equal(lowest.valueIn(servedWindow), 1000n)
  for (const version of [700n, 400n, 900n]) lowest.record(version, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 400n)
  lowest.record(99n, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 400n, 'a version below the window does not count')
  lowest.record(100n, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 100n, 'the end of the window counts')
})

t.test('the reported version lies within the current window', async t => {
  const lowest = new LowestRecentRequest(() => 0)
  lowest.record(5000n, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 1000n, 'a version above the head counts as the head')
  lowest.record(400n, servedWindow)
  t.equal(lowest.valueIn(window(600n, 2000n)), 600n)
})

t.test('versions requested before a position is known are ignored', async t => {
  const lowest = new LowestRecentRequest(() => 0)
  for (const version of [3n, 400n]) lowest.record(version, undefined)
  t.equal(lowest.valueIn(servedWindow), 1000n, 'it may be pruned long since')
  lowest.record(400n, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 400n, 'a later request counts')
})

t.test('a requested version is remembered for 2.5 to 5 minutes', async t => {
  const clock = { ms: 1_000_000 }
  const lowest = new LowestRecentRequest(() => clock.ms)
  clock.ms += 149_999
  lowest.record(300n, servedWindow)
  clock.ms += 150_000
  t.equal(lowest.valueIn(servedWindow), 300n)
  lowest.record(500n, servedWindow)
  t.equal(lowest.valueIn(servedWindow), 300n)
  clock.ms += 1
  t.equal(lowest.valueIn(servedWindow), 500n, 'its half and the next one are over')
  clock.ms += 150_000
  t.equal(lowest.valueIn(servedWindow), 1000n)
  lowest.record(200n, servedWindow)
  clock.ms += 300_000
  t.equal(lowest.valueIn(servedWindow), 1000n, 'two halves passed without a look')
})

t.test('each half has its own number, and another chain starts a new half', async t => {
  const clock = { ms: 0 }
  const lowest = new LowestRecentRequest(() => clock.ms)
  const first = lowest.half
  clock.ms += 149_999
  lowest.rotate()
  t.equal(lowest.half, first)
  clock.ms += 1
  lowest.rotate()
  t.not(lowest.half, first)
  const second = lowest.half
  lowest.record(300n, servedWindow)
  lowest.clear()
  t.not(lowest.half, second)
  t.equal(lowest.valueIn(servedWindow), 1000n)
})
