import cluster from 'node:cluster'
import t from 'tap'
import { WorkerProcess } from '../../src/workers/worker-process.js'

t.test('a worker that the system cannot start counts as ended, and nothing waits for it', async t => {
  cluster.setupPrimary({ exec: 'worker.js', cwd: '/nowhere' })
  const worker = new WorkerProcess({
    startMessage: () => {
      throw new Error('it is never there')
    },
    onMessage: () => {}
  }, new WeakSet())
  await t.rejects(worker.listening, { message: /ENOENT/ })
  await t.rejects(worker.ready, { message: /ENOENT/ })
  t.same(await worker.exited, { code: null, signal: null })
})
