import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startSandboxNode } from '../support/replicas.js'
import { requestSocket } from '../support/client.js'
import { quietConfig, varveAt } from '../support/varve.js'

t.test('workers share a unix socket', async t => {
  const folder = mkdtempSync(join(tmpdir(), 'varve-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  const path = join(folder, 'http.sock')
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, node.url, { listen: `unix:${path}`, workers: 2, ...quietConfig })
  t.equal(varve.url, `unix:${path}`)
  const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'
  const details: string[] = []
  for (let nth = 0; nth < 4; nth++) details.push(String((await requestSocket(path, modules)).headers['cache-status']))
  t.equal(details.filter(detail => detail.includes('uri-miss')).length, 2, 'each worker had a miss')
  await varve.stop({ drainMs: 0 })
  t.notOk(existsSync(path))
})
