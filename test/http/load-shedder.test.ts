import t from 'tap'
import { ErrorResponse } from '../../src/api/error-response.js'
import { loadTickMs, LoadShedder } from '../../src/http/load-shedder.js'

/** Simulates an event loop with the delays that the test gives. */
function loop (): { lag: LoadShedder, late: (...ms: number[]) => void, changes: boolean[], shed: () => number } {
  let now = 0
  let shed = 0
  const changes: boolean[] = []
  const lag = new LoadShedder({
    now: () => now,
    lateMs: 100,
    onShed: () => {
      shed++
    },
    onChange: isShedding => {
      changes.push(isShedding)
    }
  })
  lag.tick()
  const late = (...ms: number[]): void => {
    for (const by of ms) {
      now += loadTickMs + by
      lag.tick()
    }
  }
  return { lag, late, changes, shed: () => shed }
}

const times = (count: number, ...ms: number[]): number[] => Array.from({ length: count }, () => ms).flat()

t.test('after a second of event-loop delay misses get 503 with Retry-After, until it recovers', async t => {
  const { lag, late, changes, shed } = loop()
  late(...times(7, 100))
  lag.rejectIfOverloaded()
  t.notOk(lag.isShedding)
  late(100)
  t.ok(lag.isShedding)
  try {
    lag.rejectIfOverloaded()
    t.fail('it is rejected')
  } catch (error) {
    t.ok(error instanceof ErrorResponse)
    t.match(error, { status: 503, code: 'internal_error', rawHeaders: ['retry-after', '1'] })
  }
  t.equal(shed(), 1)
  late(...times(7, 0))
  t.ok(lag.isShedding)
  late(0)
  lag.rejectIfOverloaded()
  t.same(changes, [true, false])
})

t.test('one long garbage collection sheds no load, nor does a delay in every other turn', async t => {
  const { lag, late, changes } = loop()
  late(5000, ...times(5, 0), 5000)
  late(...times(100, 300, 0))
  t.notOk(lag.isShedding)
  t.same(changes, [])
})

t.test('at the threshold the load shedder does not flap', async t => {
  const { late, changes } = loop()
  late(...times(50, 70))
  t.same(changes, [])
  late(...times(8, 100), ...times(50, 70))
  t.same(changes, [true])
  late(...times(4, 0), ...times(4, 100), ...times(50, 70))
  t.same(changes, [true])
})

t.test('a reload can lower the delay that sheds load, or switch load shedding off', async t => {
  const { lag, late, changes } = loop()
  lag.setLateMs(null)
  late(...times(50, 5000))
  t.same(changes, [])
  lag.setLateMs(20)
  late(...times(8, 20))
  t.same(changes, [true])
  lag.setLateMs(null)
  late(...times(8, 5000))
  t.same(changes, [true, false])
})
