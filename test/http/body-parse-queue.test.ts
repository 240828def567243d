import { type ServerResponse } from 'node:http'
import t from 'tap'
import { TurnQueue } from '../../src/http/request-body.js'

const response = (change: { destroyed?: boolean } = {}): ServerResponse =>
  ({ destroyed: false, ...change }) as ServerResponse
const eventLoopTurn = async (): Promise<void> => {
  await new Promise(resolve => setImmediate(resolve))
}

t.test('large bodies are parsed in order, 256 KiB or one body per turn of the event loop', async t => {
  const queue = new TurnQueue(256 * 1024, 64 * 1024 * 1024)
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
    queue.waitForTurn(kib * 1024, to).then(() => done.push(name), t.fail)
  }
  t.same(done, [], 'not in the turn in which they arrived')
  Object.assign(leaving, { destroyed: true })
  for (const expected of [['a'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd'], ['a', 'b', 'c', 'd']]) {
    await eventLoopTurn()
    t.same(done, expected)
  }
  await queue.waitForTurn(1, response())
})

t.test('at most 64 MiB of bodies wait to be parsed; beyond, requests are rejected', async t => {
  const queue = new TurnQueue(256 * 1024, 64 * 1024 * 1024)
  const pending = Array.from({ length: 64 }, async () => await queue.waitForTurn(1024 * 1024, response()))
  await t.rejects(queue.waitForTurn(20_000, response()), { message: /overloaded/ })
  await pending[0]
  await queue.waitForTurn(20_000, response())
  await Promise.all(pending)
})

t.test('a turn of the event loop starts so many reads, in the order of their arrival', async t => {
  const queue = new TurnQueue(2)
  const done: string[] = []
  const start = (name: string, to = response()): void => {
    if (queue.tryStart(1)) done.push(name)
    else queue.waitForTurn(1, to).then(() => done.push(name), t.fail)
  }
  for (const name of ['a', 'b', 'c']) start(name)
  start('gone', response({ destroyed: true }))
  start('d')
  start('e')
  t.same(done, ['a', 'b'], 'the first in their own turn')
  await eventLoopTurn()
  t.same(done, ['a', 'b', 'c', 'd'])
  start('f')
  await eventLoopTurn()
  t.same(done, ['a', 'b', 'c', 'd', 'e', 'f'])
  for (let turn = 0; turn < 2; turn++) await eventLoopTurn()
  start('g')
  t.same(done.slice(-1), ['g'], 'at once in a calm turn')
})
