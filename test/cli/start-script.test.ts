import { spawn } from 'node:child_process'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'

const root = join(import.meta.dirname, '../..')
const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
t.jobs = 4

/** Runs `npm start` until it serves or ends; `isSandbox` says if it serves the sandbox. */
async function started (
  t: Test,
  args: readonly string[],
  environment: Record<string, string> = {}
): Promise<{ isSandbox?: boolean, code?: number | null, output: string }> {
  const own = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('VARVE_') && name !== 'NODE_OPTIONS')
  )
  const child = spawn(process.execPath, ['scripts/start.js', ...free, ...args], {
    cwd: root,
    env: {
      ...own,
      ...environment
    },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  const served = new Promise<string>(resolve => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', bytes => {
        output += String(bytes)
        const [, url] = /"url":"([^"]+)","adminUrl":"[^"]+","msg":"listening"/.exec(output) ?? []
        if (url !== undefined) resolve(url)
      })
    }
  })
  const ended = new Promise<number | null>(resolve => child.once('close', resolve))
  const came = await Promise.race([served, ended])
  if (typeof came !== 'string') return { code: came, output }
  return { isSandbox: (await sendRequest(came, '/v2/nothing')).headers['x-varve-sandbox'] === 'true', output }
}

t.test('npm start serves the sandbox if no flag, variable or file names an upstream', { buffered: true }, async t => {
  const file = join(t.testdir({ 'v.yaml': 'cache: { memory: { maxMb: 32 } }\n' }), 'v.yaml')
  t.match(await started(t, ['--config', file], { VARVE_UPSTREAM: '' }), { isSandbox: true })
})

t.test('npm start serves the upstream that a flag, variable or file names', { buffered: true }, async t => {
  const { url } = await startSandboxNode(t)
  const file = join(t.testdir({ 'v.yaml': `upstreams: [{ url: "${url}" }]\n` }), 'v.yaml')
  const all = await Promise.all([
    started(t, [`--upstream=${url}`]),
    started(t, [], { VARVE_UPSTREAM: url }),
    started(t, [], { VARVE_CONFIG: file })
  ])
  t.same(all.map(({ isSandbox }) => isSandbox), [false, false, false], all.map(({ output }) => output).join(''))
})

t.test('npm start with a mistyped variable or VARVE_SANDBOX=0 ends with 2, without a sandbox', {
  buffered: true
}, async t => {
  const [mistyped, off] = await Promise.all([
    started(t, [], { VARVE_UPSTREM: 'http://127.0.0.1:9' }),
    started(t, [], { VARVE_SANDBOX: '0' })
  ])
  t.match(mistyped, {
    code: 2,
    output: 'VARVE_UPSTREM: unknown environment variable; the nearest known name is VARVE_UPSTREAM'
  })
  t.match(off, { code: 2, output: '--sandbox' })
})
