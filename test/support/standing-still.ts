import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { type Test } from 'tap'

// Answers what it is sent, whatever the thread of the test does meanwhile.
const echo = `
  const { createServer } = require('node:net')
  const { parentPort } = require('node:worker_threads')
  const server = createServer(socket => { socket.pipe(socket) })
  server.listen(0, '127.0.0.1', () => { parentPort.postMessage(server.address().port) })
`

/** A connection to somebody who answers while this process stands still. */
export async function echoing (t: Test): Promise<Socket> {
  const server = new Worker(echo, { eval: true })
  const [port] = await once(server, 'message') as [number]
  const socket = connect(port, '127.0.0.1')
  t.teardown(async () => {
    socket.destroy()
    await server.terminate()
  })
  await once(socket, 'connect')
  return socket
}

/** Does nothing at all, as a process does that gets no processor or has too much to do. */
export function standStill (ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
