import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { bannerOf } from '../../src/cli/serve.js'
import { configSchema } from '../../src/config/schema.js'
import { startSandboxNode } from '../support/replicas.js'
import { requestSocket } from '../support/client.js'
import { varveAt } from '../support/varve.js'

const modules = '/v1/accounts/0x1/modules?ledger_version=2000&limit=1'

/** Returns a path that fits the address of a socket, which that of a test folder may not. */
function socketPath (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'varve-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  return join(folder, 'http.sock')
}

t.test('a unix socket is a public listener: it serves reads, and goes with its process', async t => {
  const [path, node] = [socketPath(t), await startSandboxNode(t, { prunedBlocks: 0 })]
  const varve = await varveAt(t, node.url, { listen: `unix:${path}` })
  t.equal(varve.url, `unix:${path}`)
  t.equal(statSync(path).mode & 0o777, 0o666, 'a proxy of another user may connect')
  for (const expected of [/stored/, 'varve; hit; detail=memory']) {
    const { status, headers } = await requestSocket(path, modules)
    t.match({ status, detail: headers['cache-status'] }, { status: 200, detail: expected })
  }
  await t.rejects(varveAt(t, node.url, { listen: `unix:${path}` }), {
    message: /^cannot listen on unix:.* \(listen\): .*EADDRINUSE.*; stop the process that listens there/
  })
  t.match(await requestSocket(path, modules), { status: 200 }, 'the second did not harm the first')
  await varve.stop({ drainMs: 0 })
  t.notOk(existsSync(path))
})

t.test('the socket of a killed process is replaced, any other file is not', async t => {
  const [path, node] = [socketPath(t), await startSandboxNode(t, { prunedBlocks: 0 })]
  const dead = spawn(process.execPath, [
    '-e',
    `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`
  ])
  await once(dead, 'exit')
  t.ok(existsSync(path))
  const varve = await varveAt(t, node.url, { listen: `unix:${path}` })
  t.match(await requestSocket(path, modules), { status: 200 })
  await varve.stop({ drainMs: 0 })
  writeFileSync(path, 'precious')
  await t.rejects(varveAt(t, node.url, { listen: `unix:${path}` }), { message: /EADDRINUSE/ })
  t.equal(statSync(path).size, 8)
})

t.test('behind a unix socket, trustProxy: [unix] believes X-Forwarded-For', async t => {
  const node = await startSandboxNode(t, { prunedBlocks: 0 })
  const limits = { client: { requestsPerSecond: 1, exemptHits: false } }
  for (const [trustProxy, expected] of [[['unix'], [200, 200, 429]], [[], [200, 429, 429]]] as const) {
    const path = socketPath(t)
    await varveAt(t, node.url, { listen: `unix:${path}`, trustProxy: [...trustProxy], limits })
    const statuses: number[] = []
    for (const client of ['203.0.113.1', '203.0.113.2', '203.0.113.2']) {
      statuses.push((await requestSocket(path, modules, { 'x-forwarded-for': client })).status)
    }
    t.same(statuses, expected)
  }
})

t.test('behind a unix socket, trustProxy: [unix] takes the id of a request from the proxy', async t => {
  const [node, given] = [await startSandboxNode(t, { prunedBlocks: 0 }), 'edge/7f3a:42']
  for (const [trustProxy, expected] of [[['unix'], given], [['loopback'], /^req-/], [[], /^req-/]] as const) {
    const path = socketPath(t)
    const varve = await varveAt(t, node.url, {
      listen: `unix:${path}`,
      trustProxy: [...trustProxy],
      log: { access: true }
    })
    // A miss, then hits by the router and by the fast path.
    for (let nth = 0; nth < 3; nth++) {
      t.match((await requestSocket(path, modules, { 'x-request-id': given })).headers['x-request-id'], expected)
    }
    t.match(varve.log.filter(({ msg }) => msg === 'request completed').at(-1)?.['id'], expected)
  }
})

t.test('the banner shows commands that reach a unix socket', async t => {
  const config = configSchema.parse({})
  const banner = bannerOf({ url: 'unix:/run/v.sock', adminUrl: 'http://a' }, { config, isSandbox: true })
  t.match(banner, /reads {3}unix:\/run\/v\.sock\n/)
  t.match(banner, 'curl --unix-socket /run/v.sock -si "http://varve/v1/accounts/0x1/modules?ledger_version=2000')
})

t.test('listen takes an absolute path that fits the address of a socket', async t => {
  const isValid = (value: object): boolean => configSchema.safeParse(value).success
  for (const listen of ['unix:/run/varve.sock', 'unix:/run/a b/ü']) t.ok(isValid({ listen }), listen)
  for (const listen of ['unix:', 'unix:run/x', 'unix:/', 'unix:/run/', 'unix:/a\0b', `unix:/${'x'.repeat(107)}`]) {
    t.notOk(isValid({ listen }), listen)
  }
  t.notOk(isValid({ admin: { listen: 'unix:/run/varve.sock' } }), 'the admin listener has Host names to check')
  t.notOk(isValid({ trustProxy: ['unix'] }), 'only a unix socket has connections without an address')
})
