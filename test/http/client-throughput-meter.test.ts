import t from 'tap'
import { ClientThroughputMeter } from '../../src/http/client-throughput-meter.js'

const kilo = 1024

/** Returns the second at which a client that reads this many bytes counts as stalled, or undefined. */
function stalledAt (takenBy: (second: number) => number): number | undefined {
  const taking = new ClientThroughputMeter()
  return Array.from({ length: 600 }, (_, at) => at + 1).find(second => {
    taking.sample({ bytesWritten: takenBy(second) + kilo, writableLength: kilo })
    return taking.isStalled
  })
}

t.test('a client that reads nothing for 120 seconds is stalled, whatever the kernel has buffered', async t => {
  t.equal(stalledAt(() => 0), 121)
  t.equal(stalledAt(() => 4_000_000), 121)
  t.equal(stalledAt(second => second < 20 ? second * 1_000_000 : 20_000_000), 140)
})

t.test('a client that reads steadily is not stalled, however rarely the kernel reports progress', async t => {
  const inJumps = (bytesPerSecond: number, every: number) => (second: number): number =>
    Math.floor(second / every) * every * bytesPerSecond
  t.equal(stalledAt(inJumps(150 * kilo, 9)), undefined)
  t.equal(stalledAt(inJumps(16 * kilo, 79)), undefined)
  t.equal(stalledAt(inJumps(1, 120)), undefined)
})

t.test('a client that has read everything has no backlog, and its stall time restarts', async t => {
  const taking = new ClientThroughputMeter()
  for (let second = 1; second < 600; second++) {
    const writableLength = second % 100 === 0 ? 0 : 10
    taking.sample({ bytesWritten: 100, writableLength })
    t.equal(taking.backlogTicks, second % 100)
    t.notOk(taking.isStalled)
  }
})

t.test('throughput counts from when the kernel\'s buffer is full, not what it took at once', async t => {
  const taking = new ClientThroughputMeter()
  for (const taken of [4_000_000, 4_000_000, 4_300_000, 4_300_000]) {
    taking.sample({ bytesWritten: taken + 10, writableLength: 10 })
  }
  t.equal(taking.bytesPerSecond, 75_000)
})
