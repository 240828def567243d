import t from 'tap'
import { LowestRecentRequest } from '../../src/proxy/pruned-reads.js'
import { type Position } from '../../src/api/position.js'

const window = (oldest: bigint, head: bigint): Position => ({
  chainId: 4,
  head: { version: head, timestampUsec: 1n, epoch: 1n, blockHeight: 1n },
  oldest: { version: oldest, blockHeight: 0n }
})
const servedWindow = window(100n, 1000n)

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
