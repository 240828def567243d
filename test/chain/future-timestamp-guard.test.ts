import t from 'tap'
import { FutureTimestampGuard } from '../../src/chain/quarantine.js'

const hourUsec = 3_600_000_000n
const usec = (ms: number): bigint => BigInt(ms) * 1000n

t.test('a timestamp from the future is rejected and does not affect later ones', async t => {
  const clock = { ms: 1_800_000_000_000 }
  const guard = new FutureTimestampGuard(() => clock.ms, () => clock.ms)
  t.ok(guard.accepts(usec(clock.ms)))
  t.ok(guard.accepts(usec(clock.ms) + hourUsec), 'clocks may differ a little')
  t.notOk(guard.accepts(usec(clock.ms) + 3n * hourUsec))
  t.ok(guard.accepts(usec(clock.ms)))
  clock.ms += 3000
  t.notOk(guard.accepts(usec(clock.ms) + 3n * hourUsec), 'it was not reported throughout')
})

t.test('a timestamp from the future is accepted as the first, or once reported for two seconds', async t => {
  const clock = { ms: 0 }
  const guard = new FutureTimestampGuard(() => clock.ms, () => 1_600_000_000_000 + clock.ms)
  const future = usec(1_800_000_000_000)
  t.ok(guard.accepts(future), 'nothing else is known of the chain\'s clock')
  t.ok(guard.accepts(5n), 'a past time is possible')
  const later = future + 3n * hourUsec
  for (; clock.ms < 2000; clock.ms += 500) t.notOk(guard.accepts(later + usec(clock.ms)))
  t.ok(guard.accepts(later + usec(clock.ms)))
  t.ok(guard.accepts(later + usec(clock.ms) + hourUsec))
  t.notOk(guard.accepts(later + usec(clock.ms) + 3n * hourUsec))
})
