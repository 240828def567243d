import { type ServerResponse } from 'node:http'
import t from 'tap'
import { BodyParseQueue } from '../../src/http/request-body.js'

t.test('large bodies are parsed in order, one per turn, and not for clients that have left', async t => {
  const queue = new BodyParseQueue()
  const done: string[] = []
  const gone = { destroyed: false }
  for (const [name, response] of [['a', {}], ['gone', gone], ['b', {}], ['c', {}]] as const) {
    queue.waitForTurn(response as ServerResponse).then(() => done.push(name), t.fail)
  }
  t.same(done, [], 'not in the turn in which they arrived')
  gone.destroyed = true
  for (let turn = 0; turn < 6; turn++) {
    const before = done.length
    await new Promise(resolve => setImmediate(resolve))
    t.ok(done.length <= before + 1)
  }
  t.same(done, ['a', 'b', 'c'])
  await queue.waitForTurn({} as ServerResponse)
})
