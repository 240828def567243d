import t from 'tap'
import { Foresight } from '../../src/nodes/foresight.js'

const minuteUsec = 60_000_000n
const usec = (ms: number): bigint => BigInt(ms) * 1000n

t.test('a time that nobody can know yet is not believed at once, and takes nothing from what is said after it', async t => {
  const clock = { ms: 1_800_000_000_000 }
  const foresight = new Foresight(() => clock.ms, () => clock.ms)
  t.ok(foresight.believes(usec(clock.ms)))
  t.ok(foresight.believes(usec(clock.ms) + minuteUsec), 'clocks may be off by a little')
  t.notOk(foresight.believes(usec(clock.ms) + 3n * minuteUsec))
  t.ok(foresight.believes(usec(clock.ms)))
  clock.ms += 11_000
  t.notOk(foresight.believes(usec(clock.ms) + 3n * minuteUsec), 'it has not said so all the while')
})

t.test('a chain that lives in another time is believed: an old one at once, one ahead of this machine\'s clock when its node has said so for ten seconds, and then by its own clock', async t => {
  const clock = { ms: 0 }
  const foresight = new Foresight(() => clock.ms, () => 1_600_000_000_000 + clock.ms)
  t.ok(foresight.believes(5n))
  const future = usec(1_800_000_000_000)
  for (; clock.ms < 10_000; clock.ms += 1000) t.notOk(foresight.believes(future + usec(clock.ms)))
  t.ok(foresight.believes(future + usec(clock.ms)))
  t.ok(foresight.believes(future + usec(clock.ms) + minuteUsec))
  t.notOk(foresight.believes(future + usec(clock.ms) + 3n * minuteUsec))
})
