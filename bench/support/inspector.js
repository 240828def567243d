import { once } from 'node:events'
import { WebSocket } from 'undici'

/**
 * Connects to a process started with --inspect, which allows garbage collection without changes to the measured
 * program.
 */
export async function inspect (program) {
  const socket = new WebSocket(await program.says(line => /^Debugger listening on (ws:\S+)$/.exec(line)?.[1]))
  const waiting = new Map()
  socket.addEventListener('message', ({ data }) => {
    const { id, result, error } = JSON.parse(data)
    const { resolve, reject } = waiting.get(id) ?? {}
    waiting.delete(id)
    if (error === undefined) resolve?.(result)
    else reject?.(new Error(error.message))
  })
  await once(socket, 'open')
  let last = 0
  const call = (method, params) =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject })
      socket.send(JSON.stringify({ id: last, method, params }))
    })
  return {
    /** Returns memory usage after garbage collection. */
    async memory () {
      // Collects twice, since the first collection can release buffers outside the heap.
      for (let turn = 0; turn < 2; turn++) await call('HeapProfiler.collectGarbage')
      const { result } = await call('Runtime.evaluate', { expression: 'process.memoryUsage()', returnByValue: true })
      return result.value
    },
    close: () => {
      socket.close()
    }
  }
}
