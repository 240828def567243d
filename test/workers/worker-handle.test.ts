import cluster from 'node:cluster'
import { join } from 'node:path'
import t from 'tap'
import { WorkerHandle } from '../../src/workers/worker-handle.js'
import { until } from '../support/until.js'

t.test('a worker that the system cannot start counts as ended, and nothing waits for it', async t => {
  cluster.setupPrimary({ exec: 'worker.js', cwd: '/nowhere' })
  const worker = new WorkerHandle({
    startMessage: () => {
      throw new Error('it is never there')
    },
    onMessage: () => {}
  }, new WeakSet())
  await t.rejects(worker.listening, { message: /ENOENT/ })
  await t.rejects(worker.ready, { message: /ENOENT/ })
  t.same(await worker.exited, { code: null, signal: null })
})

t.test('each line that a worker prints goes to the program that wants its log', async t => {
  const exec = join(
    t.testdir({ 'worker.js': 'process.stdout.write("first\\nsec"); process.stdout.write("ond\\n")' }),
    'worker.js'
  )
  cluster.setupPrimary({ exec, cwd: process.cwd(), stdio: ['inherit', 'pipe', 'inherit', 'ipc'] })
  const lines: string[] = []
  const worker = new WorkerHandle(
    {
      startMessage: () => {
        throw new Error('it is never there')
      },
      onMessage: () => {}
    },
    new WeakSet(),
    line => lines.push(line)
  )
  for (const startup of [worker.listening, worker.ready]) startup.catch(() => {})
  t.teardown(() => {
    worker.kill()
  })
  await until(() => lines.length === 2, 'both lines have arrived')
  t.same(lines, ['first\n', 'second\n'])
})
