import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { type Test } from 'tap'

// Answers, whatever the thread of the test does meanwhile: with what it is to say, or with what it was sent.
const elsewhere = `
  const { createServer } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  const server = createServer(socket => { socket.on('error', () => {}).on('data', sent => { setTimeout(() => { socket.write(workerData.says ?? sent) }, workerData.afterMs) }) })
  server.listen(0, '127.0.0.1', () => { parentPort.postMessage(server.address().port) })
`

/** Starts somebody who answers after a while, also while this process stands still; tells its port. */
export async function startDelayedServer (t: Test, afterMs: number, says?: string): Promise<number> {
  const server = new Worker(elsewhere, { eval: true, workerData: { says, afterMs } })
  t.teardown(async () => {
    await server.terminate()
  })
  const [port] = await once(server, 'message') as [number]
  return port
}

/** A connection to somebody who says again what is said. */
export async function connectToEcho (t: Test): Promise<Socket> {
  const socket = connect(await startDelayedServer(t, 0), '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return socket
}

/** Does nothing at all, as a process does that gets no processor or has too much to do. */
export function blockLoop (ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
