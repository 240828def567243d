import { once } from 'node:events'
import { WebSocket } from 'undici'

/**
 * Looks into a Node process that was started with --inspect: the one way to have garbage collected there, so that what
 * is left is what is kept, without a line for it in the program that is measured.
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
    /** What the process holds once nothing is left to collect. */
    async memory () {
      // Twice: what is freed by the first may let go of buffers outside the heap.
      for (let turn = 0; turn < 2; turn++) await call('HeapProfiler.collectGarbage')
      const { result } = await call('Runtime.evaluate', { expression: 'process.memoryUsage()', returnByValue: true })
      return result.value
    },
    close: () => {
      socket.close()
    }
  }
}
