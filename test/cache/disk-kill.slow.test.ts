import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { startSandbox } from '#sandbox'
import { cacheStatusHeader } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { startProgram } from '../support/program.js'
import { until } from '../support/until.js'
import { testFolder } from '../support/test-folder.js'

// RUNS_FACTOR=n kills more often or less.
const rounds = Math.ceil(12 * Number(process.env['RUNS_FACTOR'] ?? 1))

t.test('killed at any moment under load, it starts again with intact entries and serves the truth', async t => {
  const node = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await node.close()
  })
  const path = testFolder(t)
  const targets = Array.from({ length: 300 }, (_, at) =>
    [
      `/v1/blocks/by_version/${1200 + at}?with_transactions=true`,
      `/v1/accounts/0x1/modules?ledger_version=${1200 + at}`,
      `/v1/blocks/by_version/${1200 + at}`
    ][at % 3] ?? '')
  const truth = new Map<string, string>()
  for (const target of targets) truth.set(target, (await sendRequest(node.url, target)).body)
  let [diskHits, wrong, responses] = [0, 0, 0]
  const read = async (url: string, target: string): Promise<void> => {
    const { status, headers, body } = await sendRequest(url, target)
    if (status !== 200 || body !== truth.get(target)) wrong++
    if (headers[cacheStatusHeader] === 'varve; hit; detail=disk') diskHits++
    responses++
  }
  for (let round = 0; round < rounds; round++) {
    const varve = await startProgram(t, ['--upstream', node.url, '--disk', path])
    const killed = new AbortController()
    // Begins elsewhere in each round, so that some reads are stored and others found.
    const readers = [0, 1, 2, 3].map(async reader => {
      for (let at = reader; !killed.signal.aborted; at += 4) {
        await read(varve.url, targets[(round * 37 + at) % targets.length] ?? '').catch(error => {
          if (!killed.signal.aborted) throw error
        })
      }
    })
    // Counts responses instead of time, since a busy machine stores little in a fixed time.
    const [enough, laterMs] = [responses + 50 + round % 12 * 20, round * 7 % 40]
    await until(() => responses >= enough, 'it has responded under load')
    await new Promise(resolve => setTimeout(resolve, laterMs))
    killed.abort()
    varve.child.kill('SIGKILL')
    await varve.ended
    await Promise.all(readers)
  }
  const last = await startProgram(t, ['--upstream', node.url, '--disk', path])
  const before = diskHits
  for (const target of targets) await read(last.url, target)
  const { body: metrics } = await sendRequest(last.adminUrl, '/metrics')
  t.equal(wrong, 0, 'every response is the upstream\'s')
  t.ok(diskHits - before > 50, `${diskHits - before} of ${targets.length} reads are found on the disk`)
  t.match(metrics, /^varve_corrupt_entries_total 0$/m, 'and no file is damaged')
  t.comment(`${diskHits} hits on the disk after ${rounds} kills`)
})

t.test('it stops within ten seconds although no operation on the disk ever ends', async t => {
  const node = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await node.close()
  })
  const pipe = join(t.testdirName, 'pipe')
  const folder = t.testdir({
    // Opening a pipe without a writer never ends, and Node.js has four threads for files.
    'hang.mjs': `import { open } from 'node:fs'
      process.on('SIGUSR2', () => { for (let at = 0; at < 4; at++) open('${pipe}', 'r', () => {}) })`
  })
  execFileSync('mkfifo', [pipe])
  const varve = await startProgram(t, ['--upstream', node.url, '--disk', join(folder, 'cache')], {
    nodeArgs: ['--import', join(folder, 'hang.mjs')]
  })
  varve.child.kill('SIGUSR2')
  t.equal((await sendRequest(varve.url, '/v1/blocks/by_version/1200')).status, 200)
  const began = performance.now()
  varve.child.kill('SIGTERM')
  await varve.ended
  t.ok(performance.now() - began < 10_000)
})
