import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

t.test('on a fresh clone the README\'s first command starts varve, its curls show a miss, a hit, a hit with the position moved on, and one read of a block for two versions, and Ctrl-C ends it', async t => {
  const clone = join(t.testdir(), 'clone')
  await run('git', ['clone', '--quiet', root, clone])
  const readme = readFileSync(join(clone, 'README.md'), 'utf8')
  const curls = [...readme.matchAll(/^(curl -si? .*[^\\])$/gm)].map(match => match[1] ?? '').slice(0, 5)
  t.equal(curls.length, 5)
  t.match(readme, /^npm start$/m)
  const child = spawn('npm', ['start', '--', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], { cwd: clone, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  t.teardown(() => { if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL') })
  let out = ''
  let url: string | undefined
  for await (const chunk of child.stdout) {
    out += String(chunk)
    url = /reads\s+(http:\S+)\/v1\n/.exec(out)?.[1]
    if (url !== undefined) break
  }
  const answers: string[] = []
  for (const curl of curls) {
    const { stdout } = await run('sh', ['-c', curl.replaceAll('http://127.0.0.1:8080', url ?? '')])
    answers.push(stdout)
    // The position is polled each second in silence; the README has a person typing meanwhile.
    await new Promise(resolve => { setTimeout(resolve, 1500) })
  }
  t.match(answers[0], /cache-status: varve; fwd=uri-miss; fwd-status=200; stored/)
  t.match(answers[1], /cache-status: varve; hit; detail=memory/)
  t.match(answers[2], /cache-status: varve; hit; detail=memory/)
  t.match(answers[3], /cache-status: varve; fwd=uri-miss; fwd-status=200; stored/)
  t.match(answers[4], /cache-status: varve; hit; detail=memory/, 'another version of the same block')
  const heights = answers.map(answer => Number(/X-NODE-BLOCK-HEIGHT: (\d+)/.exec(answer)?.[1]))
  t.ok((heights[2] ?? 0) > (heights[0] ?? 0), heights.join(', '))
  if (child.pid !== undefined) process.kill(-child.pid, 'SIGINT')
  child.stdout.resume()
  await once(child, 'exit')
  t.pass('and nothing is left running')
})
