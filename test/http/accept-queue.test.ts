import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import t from 'tap'
import { until } from '../support/until.js'
import { countWaitingConnections } from '../../src/http/connection-limiter.js'

for (const host of ['127.0.0.1', '::1']) {
  t.test(`connections that wait to be accepted are counted, on ${host}`, async t => {
    const server = createServer()
    server.listen(0, host)
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    t.equal(countWaitingConnections(server), 0)
    const connect = `for (let n = 0; n < 3; n++) require('net').connect(${port}, '${host}').on('error', () => {})`
    const clients = spawn(process.execPath, ['-e', connect], { stdio: 'ignore' })
    t.teardown(() => clients.kill())
    // Nothing is accepted while this turn of the event loop goes on.
    const deadline = performance.now() + 10_000
    while (countWaitingConnections(server) !== 3 && performance.now() < deadline);
    t.equal(countWaitingConnections(server), 3)
    await until(() => countWaitingConnections(server) === 0, 'all are accepted')
  })
}

t.test('each of many servers on a machine has its count', async t => {
  const servers = await Promise.all(Array.from({ length: 100 }, async () => {
    const server = createServer().listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    return server
  }))
  t.same(servers.filter(server => countWaitingConnections(server) !== 0), [])
})

t.test('a server that does not listen, or on a Unix socket, has no count', async t => {
  t.equal(countWaitingConnections({ address: () => null }), undefined)
  t.equal(countWaitingConnections({ address: () => '/run/varve.sock' }), undefined)
  t.equal(countWaitingConnections({ address: () => ({ address: '127.0.0.1', family: 'IPv4', port: 0 }) }), undefined)
})
