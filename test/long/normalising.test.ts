import { spawn } from 'node:child_process'
import { once } from 'node:events'
import t from 'tap'

t.test('ten thousand random requests mean to varve what they mean to the node, and a thousand reads are answered as the node answers them', async t => {
  const child = spawn('npx', ['tap', 'run', 'test/reads/oracle.test.ts', 'test/end-to-end.test.ts', '--disable-coverage', '--timeout=500', '--reporter=tap'], {
    env: { ...process.env, RUNS_FACTOR: '10', SEED: process.env['SEED'] ?? '101' }, stdio: ['ignore', 'pipe', 'inherit']
  })
  let out = ''
  child.stdout.on('data', chunk => { out += String(chunk) })
  const [code] = await once(child, 'exit')
  for (const line of out.split('\n').filter(text => text.includes('(seed '))) t.comment(line.trim())
  t.equal(code, 0, out.split('\n').filter(text => text.includes('not ok')).join('\n'))
})
