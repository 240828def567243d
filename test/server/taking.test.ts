import t from 'tap'
import { Taking } from '../../src/server/taking.js'

const kilo = 1024

/** After how many seconds a client is too slow that has taken so much by each of them, of what never ends; undefined where it never is. */
function cutAt (takenBy: (second: number) => number): number | undefined {
  const taking = new Taking()
  return Array.from({ length: 60 }, (_, at) => at + 1).find(second => taking.isTooSlow({ bytesWritten: takenBy(second) + kilo, writableLength: kilo }))
}

t.test('a client that takes nothing for six seconds is too slow, whatever the system took at once', async t => {
  t.equal(cutAt(() => 0), 7)
  t.equal(cutAt(() => 4_000_000), 7)
  t.equal(cutAt(second => second < 20 ? second * 1_000_000 : 20_000_000), 26)
})

t.test('one that takes a little each second, so that it never stands still, is too slow as well', async t => {
  t.equal(cutAt(second => second), 7)
  t.equal(cutAt(second => second * 15 * kilo), 7)
  t.equal(cutAt(second => second * 16 * kilo), undefined)
})

t.test('one whose network goes away for five seconds is not, nor is one that takes its part in strides', async t => {
  t.equal(cutAt(second => Math.floor(second / 6) * 1_000_000), undefined)
  t.equal(cutAt(second => Math.floor(second / 6) * 128 * kilo), undefined)
})

t.test('while there is nothing to take, nobody is slow', async t => {
  const taking = new Taking()
  for (let second = 1; second < 60; second++) t.notOk(taking.isTooSlow({ bytesWritten: 100, writableLength: second % 7 === 0 ? 0 : 10 }))
})
