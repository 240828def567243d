import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { run } from '../cli/command.js'
import { stubNode } from '../support/stub-node.js'
import { varveAtSandbox } from '../support/varve.js'

t.test('what somebody else answers does nothing to the terminal that is told of it', async t => {
  const odd = await stubNode(t, ({ url = '' }, response) => {
    if (url.includes('/10')) response.writeHead(404).end('\x1b[2J\x07<h1>\r\nnothing here')
    else response.writeHead(302, { location: '/login' }).end()
  })
  t.match((await run(t, ['warm', '--from', '10', '--to', '10', '--url', odd.url])).err, /^varve: version 10 cannot be read: the answer is 404, {2}\[2J <h1> nothing here; that is no varve/)
  t.match((await run(t, ['warm', '--from', '11', '--to', '11', '--url', odd.url])).err, /^varve: version 11 cannot be read: the answer is 302, with nothing in it; that is no varve/)
})

t.test('a file that cannot be read is named, and the run goes on at its first line', async t => {
  const { varve } = await varveAtSandbox(t, { startVersion: 0n })
  const folder = mkdtempSync(join(tmpdir(), 'varve-warm-'))
  t.teardown(() => { rmSync(folder, { recursive: true }) })
  const file = join(folder, 'reads.txt')
  writeFileSync(file, 'GET /v1\nGET /v1\n')
  for (const [name, reason] of [[folder, 'EISDIR'], [join(folder, 'none.txt'), 'ENOENT']] as const) {
    const { code, err } = await run(t, ['warm', file, name, '--url', varve.url])
    t.match([code, err], [1, new RegExp(`^varve: ${name} cannot be read: ${reason}.*\nvarve: not all was read; go on with\n  varve warm --skip 2 ${file} ${name} --url `)])
  }
})
