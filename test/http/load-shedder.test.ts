import t from 'tap'
import { ErrorResponse } from '../../src/api/error-response.js'
import { loadTickMs, LoadShedder } from '../../src/http/load-shedder.js'

/** A loop whose turns are as late as the test says. */
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

t.test('a loop that is late for a second and more has misses refused, with the time to come again, until it was in time for most of a second', async t => {
  const { lag, late, changes, shed } = loop()
  late(...times(7, 100))
  lag.rejectIfOverloaded()
  t.notOk(lag.isShedding)
  late(100)
  t.ok(lag.isShedding)
  try {
    lag.rejectIfOverloaded()
    t.fail('it is refused')
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

t.test('one long garbage collection is no reason, nor is one at each second turn', async t => {
  const { lag, late, changes } = loop()
  late(5000, ...times(5, 0), 5000)
  late(...times(100, 300, 0))
  t.notOk(lag.isShedding)
  t.same(changes, [])
})

t.test('at the edge it does not change its mind', async t => {
  const { late, changes } = loop()
  late(...times(50, 70))
  t.same(changes, [])
  late(...times(8, 100), ...times(50, 70))
  t.same(changes, [true])
  late(...times(4, 0), ...times(4, 100), ...times(50, 70))
  t.same(changes, [true])
})

t.test('another configuration has it be less patient, or never refuse anything', async t => {
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
