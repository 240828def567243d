import t from 'tap'
import { loadTickMs, LoadShedder } from '../../src/http/load-shedder.js'

const times = (count: number, ...ms: number[]): number[] => Array.from({ length: count }, () => ms).flat()

t.test('misses are shed after a second of delay and until a second without; bursts shed none', async t => {
  const cases: Array<[why: string, delays: number[], changes: boolean[]]> = [
    ['less than a second', times(7, 100), []],
    ['a second', times(8, 100), [true]],
    ['recovers within less than a second', [...times(8, 100), ...times(7, 0)], [true]],
    ['recovers', [...times(8, 100), ...times(8, 0)], [true, false]],
    ['two long garbage collections', [5000, ...times(5, 0), 5000], []],
    ['every other turn', times(100, 300, 0), []],
    ['below the threshold', times(50, 70), []],
    ['no flapping at the threshold', [...times(8, 100), ...times(50, 70), ...times(4, 0), ...times(4, 100)], [true]]
  ]
  for (const [why, delays, expected] of cases) t.same(changesAfter(delays).changes, expected, why)
})

t.test('a reload can lower the delay that sheds load, or switch load shedding off', async t => {
  const { shedder, late, changes } = changesAfter([])
  for (const [lateMs, delays, expected] of [[null, 5000, []], [20, 20, [true]], [null, 5000, [true, false]]] as const) {
    shedder.setLateMs(lateMs)
    late(times(50, delays))
    t.same(changes, expected)
  }
})

/** Simulates an event loop with these delays. */
function changesAfter (delays: readonly number[]) {
  let now = 0
  const changes: boolean[] = []
  const shedder = new LoadShedder({
    now: () => now,
    lateMs: 100,
    onShed: () => {},
    onChange: isShedding => changes.push(isShedding)
  })
  shedder.tick()
  const late = (all: readonly number[]): void => {
    for (const by of all) {
      now += loadTickMs + by
      shedder.tick()
    }
  }
  late(delays)
  return { shedder, late, changes }
}
