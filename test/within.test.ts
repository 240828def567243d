import { once } from 'node:events'
import { connect } from 'node:net'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { within } from '../src/within.js'

// Answers what it is sent, whatever the thread of the test does meanwhile.
const echo = `
  const { createServer } = require('node:net')
  const { parentPort } = require('node:worker_threads')
  const server = createServer(socket => { socket.pipe(socket) })
  server.listen(0, '127.0.0.1', () => { parentPort.postMessage(server.address().port) })
`

t.test('what a promise brings in time is had, and nothing where it takes longer', async t => {
  t.equal(await within(1000, Promise.resolve('brought')), 'brought')
  t.equal(await within(1, new Promise(() => {})), undefined)
  await t.rejects(within(1000, Promise.reject(new Error('no'))), { message: 'no' })
})

t.test('an answer that came while the process stood still is not late', async t => {
  const server = new Worker(echo, { eval: true })
  t.teardown(async () => { await server.terminate() })
  const [port] = await once(server, 'message') as [number]
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => { socket.destroy() })
  await once(socket, 'connect')
  for (let times = 0; times < 5; times++) {
    const answer = once(socket, 'data').then(String)
    const had = within(20, answer)
    socket.write('asked')
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
    t.equal(await had, 'asked')
  }
})
