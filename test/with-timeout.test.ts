import { once } from 'node:events'
import t from 'tap'
import { withTimeout } from '../src/with-timeout.js'
import { connectToEcho, blockLoop } from './support/blocked-loop.js'

t.test('withTimeout returns the value of a promise in time, and nothing if it takes longer', async t => {
  t.equal(await withTimeout(1000, Promise.resolve('brought')), 'brought')
  t.equal(await withTimeout(1, new Promise(() => {})), undefined)
  await t.rejects(withTimeout(1000, Promise.reject(new Error('no'))), { message: 'no' })
})

t.test('a response that arrived while the process was busy does not time out', async t => {
  const socket = await connectToEcho(t)
  for (let times = 0; times < 5; times++) {
    const had = withTimeout(20, once(socket, 'data').then(String))
    socket.write('sent')
    blockLoop(300)
    t.equal(await had, 'sent')
  }
})
