import t from 'tap'
import { TimestampGuard } from '../../src/upstreams/timestamp-guard.js'

const hourUsec = 3_600_000_000n
const usec = (ms: number): bigint => BigInt(ms) * 1000n

t.test('a time that nobody can know yet is not believed for one answer, and takes nothing from what is said after it', async t => {
  const clock = { ms: 1_800_000_000_000 }
  const foresight = new TimestampGuard(() => clock.ms, () => clock.ms)
  t.ok(foresight.accepts(usec(clock.ms)))
  t.ok(foresight.accepts(usec(clock.ms) + hourUsec), 'clocks may be off by a little')
  t.notOk(foresight.accepts(usec(clock.ms) + 3n * hourUsec))
  t.ok(foresight.accepts(usec(clock.ms)))
  clock.ms += 3000
  t.notOk(foresight.accepts(usec(clock.ms) + 3n * hourUsec), 'it has not said so all the while')
})

t.test('a chain that lives in another time is believed: from its first word on, and where it leaps when its node has said so for two seconds', async t => {
  const clock = { ms: 0 }
  const foresight = new TimestampGuard(() => clock.ms, () => 1_600_000_000_000 + clock.ms)
  const future = usec(1_800_000_000_000)
  t.ok(foresight.accepts(future), 'all that is known of its time')
  t.ok(foresight.accepts(5n), 'an old one has been')
  const later = future + 3n * hourUsec
  for (; clock.ms < 2000; clock.ms += 500) t.notOk(foresight.accepts(later + usec(clock.ms)))
  t.ok(foresight.accepts(later + usec(clock.ms)))
  t.ok(foresight.accepts(later + usec(clock.ms) + hourUsec))
  t.notOk(foresight.accepts(later + usec(clock.ms) + 3n * hourUsec))
})
