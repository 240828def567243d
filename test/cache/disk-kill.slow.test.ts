import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { startSandbox } from '#sandbox'
import { cacheStatusHeader } from '../support/cache-status.js'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'
import { testFolder } from '../support/test-folder.js'

// RUNS_FACTOR=n kills more often or less.
const rounds = Math.ceil(12 * Number(process.env['RUNS_FACTOR'] ?? 1))
const program = join(import.meta.dirname, '../../dist/cli.js')

interface Running {
  readonly url: string
  readonly adminUrl: string
  kill(): Promise<void>
  /** Sends a signal; resolves when the process has ended. */
  end(signal: NodeJS.Signals): Promise<void>
  signal(signal: NodeJS.Signals): void
}

/** Starts varve as a process of its own on a folder. */
async function startProcess (
  t: Test,
  upstream: string,
  path: string,
  nodeFlags: readonly string[] = []
): Promise<Running> {
  const flags = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--upstream', upstream, '--disk', path]
  const child = spawn(process.execPath, [...nodeFlags, program, 'serve', ...flags], {
    env: {},
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let listening: { url: string, adminUrl: string } | undefined
  createInterface(child.stdout).on('line', line => {
    const parsed = JSON.parse(line) as { msg: string, url: string, adminUrl: string }
    if (parsed.msg === 'listening') listening = parsed
  })
  await until(async () => listening !== undefined && (await fetch(`${listening.adminUrl}/readyz`)).ok, 'varve serves')
  const { url, adminUrl } = listening ?? { url: '', adminUrl: '' }
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const exited = once(child, 'exit')
    child.kill(signal)
    await exited
  }
  return {
    url,
    adminUrl,
    kill: async () => {
      await end('SIGKILL')
    },
    end,
    signal: signal => {
      child.kill(signal)
    }
  }
}

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
    const varve = await startProcess(t, node.url, path)
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
    await varve.kill()
    await Promise.all(readers)
  }
  const last = await startProcess(t, node.url, path)
  const before = diskHits
  for (const target of targets) await read(last.url, target)
  const { body: metrics } = await sendRequest(last.adminUrl, '/metrics')
  t.equal(wrong, 0, 'every response is the upstream\'s')
  t.ok(diskHits - before > 50, `${diskHits - before} of ${targets.length} reads are found on the disk`)
  t.match(metrics, /^varve_corrupt_entries_total 0$/m, 'and no file is damaged')
  await until(async () => (await readdir(join(path, 'tmp'))).length === 0, 'no temporary file is left')
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
  const varve = await startProcess(t, node.url, join(folder, 'cache'), ['--import', join(folder, 'hang.mjs')])
  varve.signal('SIGUSR2')
  t.equal((await sendRequest(varve.url, '/v1/blocks/by_version/1200')).status, 200)
  const began = performance.now()
  await varve.end('SIGTERM')
  t.ok(performance.now() - began < 10_000)
})
