import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'

// Those of the random tests that take too long for more than a few tries in `npm test`.
const files = ['reads/oracle', 'end-to-end', 'proxy/pages', 'proxy/observe', 'config/secrets', 'whole/shared-blocks', 'cache/shared-store'].map(name => `test/${name}.test.ts`)

t.test('thousands of random requests, traces, configurations and writes are what they are said to be', async t => {
  const child = spawn('npx', ['tap', 'run', ...files, '--disable-coverage', '--timeout=500', '--reporter=tap'], {
    env: { ...process.env, RUNS_FACTOR: '10', SEED: process.env['SEED'] ?? '101' }, stdio: ['ignore', 'pipe', 'inherit']
  })
  let out = ''
  child.stdout.on('data', chunk => { out += String(chunk) })
  const [code] = await once(child, 'exit')
  for (const line of out.split('\n').filter(text => text.includes('(seed '))) t.comment(line.trim())
  t.equal(code, 0, out.split('\n').filter(text => text.includes('not ok')).join('\n'))
})
