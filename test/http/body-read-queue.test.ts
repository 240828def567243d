import { type ServerResponse } from 'node:http'
import t from 'tap'
import { BodyReadQueue } from '../../src/http/body-read-queue.js'

const response = (change: { destroyed?: boolean } = {}): ServerResponse =>
  ({ destroyed: false, ...change }) as ServerResponse
const nextTurn = async (): Promise<void> => {
  await new Promise(resolve => {
    setImmediate(resolve)
  })
}

t.test('large bodies are parsed in order, 256 KiB or one body per turn of the event loop', async t => {
  const turns = new BodyReadQueue()
  const done: string[] = []
  const gone = { destroyed: false }
  const leaving = Object.assign(response(), gone)
  for (
    const [name, kib, to] of [['a', 1024, response()], ['b', 100, response()], ['gone', 1024, leaving], [
      'c',
      156,
      response()
    ], ['d', 20, response()]] as const
  ) {
    turns.waitForTurn(kib * 1024, to).then(() => {
      done.push(name)
    }, t.fail)
  }
  t.same(done, [], 'not in the turn in which they arrived')
  Object.assign(leaving, { destroyed: true })
  for (const expected of [['a'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd'], ['a', 'b', 'c', 'd']]) {
    await nextTurn()
    t.same(done, expected)
  }
  await turns.waitForTurn(1, response())
})

t.test('at most 64 MiB of bodies wait to be parsed; beyond, requests are told to retry', async t => {
  const turns = new BodyReadQueue()
  const waiting = Array.from({ length: 64 }, async () => {
    await turns.waitForTurn(1024 * 1024, response())
  })
  await t.rejects(turns.waitForTurn(20_000, response()), { message: /overloaded/ })
  await waiting[0]
  await turns.waitForTurn(20_000, response())
  await Promise.all(waiting)
})
