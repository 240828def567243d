import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { sendRequest } from '../support/client.js'
import { isGone, spawnProgram } from '../support/program.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'
import { together } from '../support/together.js'

// Runs tests side by side, because each waits for a program of its own.
t.jobs = 3
// Creates an object per test: tap writes into it, so tests with one object would run the same callback.

const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']

t.test(
  'a worker pool logs its addresses once, rolls on SIGHUP, rejects a bad file, and drains',
  together(),
  async t => {
    const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
    const text = `upstreams: [{ url: "${upstream.url}" }]\nlisten: 127.0.0.1:0\nadmin: { listen: "127.0.0.1:0" }\n`
    const file = join(t.testdir({ 'v.yaml': text }), 'v.yaml')
    const varve = spawnProgram(t, ['--config', file, '--workers', '2'], { detached: true })
    const [, url = '', adminUrl = ''] = await varve.saw(
      /"url":"([^"]+)","adminUrl":"([^"]+)","workers":2,"msg":"listening"/
    )
    t.equal(varve.log().filter(({ msg }) => msg === 'listening').length, 1)
    // Waits, because a worker that misses the deadline for its report is left out.
    const pids = async (): Promise<number[]> => {
      let found: Array<{ pid: number }> = []
      await until(async () => {
        found = (JSON.parse((await sendRequest(adminUrl, '/status.json')).body) as { workers: typeof found }).workers
        return found.length === 2
      }, 'both workers respond')
      return found.map(({ pid }) => pid)
    }
    const before = await pids()
    writeFileSync(file, `${text}colour: red\n`)
    varve.child.kill('SIGHUP')
    await varve.saw(/"reasons":\["[^"]*: colour: unknown key[^"]*"\],"msg":"new configuration rejected/)
    t.same(await pids(), before)
    writeFileSync(file, `${text}passThrough: none\n`)
    varve.child.kill('SIGHUP')
    await varve.saw(/configuration reloaded/)
    const after = await pids()
    t.notOk(after.some(pid => before.includes(pid)))
    t.match(await sendRequest(url, '/v1/spec.json'), { status: 404 })
    // Signals the whole group, as a terminal does.
    process.kill(-(varve.child.pid ?? NaN), 'SIGINT')
    t.equal((await varve.ended).code, 0)
    t.equal(varve.err(), '')
    t.match(varve.log().slice(-2), [{ msg: 'stopping', signal: 'SIGINT' }, { msg: 'stopped' }])
    t.ok(after.every(isGone))
  }
)

t.test('a stop does not wait for a rolling reload to end', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = spawnProgram(t, ['--upstream', upstream.url, ...free, '--workers', '3'])
  await varve.saw(/"msg":"listening"/)
  await until(
    async () => varve.log().filter(({ msg }) => msg === 'upstream is up').length === 3,
    'three workers report the upstream as up'
  )
  varve.child.kill('SIGHUP')
  await until(() => varve.log().some(({ worker }) => worker === 4), 'the first new worker logs')
  const signalledAt = performance.now()
  varve.child.kill('SIGTERM')
  t.equal((await varve.ended).code, 0)
  t.ok(performance.now() - signalledAt < 10_000)
  t.equal(varve.err(), '')
  t.notOk(varve.log().some(({ msg }) => /refused|exchanged/.test(String(msg))))
})

t.test('a stop does not wait for a worker that is starting', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = spawnProgram(t, ['--upstream', upstream.url, ...free, '--workers', '2'])
  const [, adminUrl = ''] = await varve.saw(/"adminUrl":"([^"]+)"/)
  let pid: number | undefined
  await until(async () => {
    const { workers } = JSON.parse((await sendRequest(adminUrl, '/status.json')).body) as {
      workers: Array<{ pid: number }>
    }
    pid = workers[0]?.pid
    return pid !== undefined
  }, 'a worker reports its status')
  process.kill(pid ?? NaN, 'SIGKILL')
  await varve.saw(/worker exited/)
  const signalledAt = performance.now()
  varve.child.kill('SIGTERM')
  t.equal((await varve.ended).code, 0)
  t.ok(performance.now() - signalledAt < 5000)
})

t.test('workers end with their primary process, however it ends', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = spawnProgram(t, ['--upstream', upstream.url, ...free, '--workers', '2'])
  const [, adminUrl = ''] = await varve.saw(/"adminUrl":"([^"]+)"/)
  const { workers } = JSON.parse((await sendRequest(adminUrl, '/status.json')).body) as {
    workers: Array<{ pid: number }>
  }
  t.equal(workers.length, 2)
  varve.child.kill('SIGKILL')
  await until(() => workers.every(({ pid }) => isGone(pid)), 'the workers have exited')
})

t.test('workers that cannot listen end varve with 1 and one sentence, and none stays behind', together(), async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const other = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = spawnProgram(t, [
    '--upstream',
    upstream.url,
    '--listen',
    new URL(other.url).host,
    '--admin',
    '127.0.0.1:0',
    '--workers',
    '2'
  ])
  t.equal((await varve.ended).code, 1)
  t.match(varve.err(), /^varve: cannot listen on \S+ \(listen\): .*EADDRINUSE.*\n$/)
})
