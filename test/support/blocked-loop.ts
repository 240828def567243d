import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { type Test } from 'tap'

// Responds from a thread of its own, whatever the test's thread does: with fixed bytes, or as an echo.
const elsewhere = `
  const { createServer } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  const server = createServer(socket => { socket.on('error', () => {}).on('data', sent => { setTimeout(() => { socket.write(workerData.response ?? sent) }, workerData.afterMs) }) })
  server.listen(0, '127.0.0.1', () => { parentPort.postMessage(server.address().port) })
`

/** Starts a server that responds after a delay, even while this process is blocked; returns its port. */
export async function startDelayedServer (t: Test, afterMs: number, response?: string): Promise<number> {
  const server = new Worker(elsewhere, { eval: true, workerData: { response, afterMs } })
  t.teardown(async () => {
    await server.terminate()
  })
  const [port] = await once(server, 'message') as [number]
  return port
}

/** Connects to an echo server. */
export async function connectToEcho (t: Test): Promise<Socket> {
  const socket = connect(await startDelayedServer(t, 0), '127.0.0.1')
  t.teardown(() => {
    socket.destroy()
  })
  await once(socket, 'connect')
  return socket
}

/** Blocks the process, as one that is overloaded or gets no processor time. */
export function blockLoop (ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}
