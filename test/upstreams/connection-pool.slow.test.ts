import { createServer } from 'node:http'
import t from 'tap'
import { ConnectionPool } from '../../src/upstreams/connection-pool.js'
import { Exchange } from '../../src/upstreams/exchange.js'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { listening } from '../support/stub-upstream.js'
import { startIdleMeter, until } from '../support/until.js'

t.test('a connection that a node leaves open is used again after some seconds without reads', async t => {
  // Nodes have no idle limit: docs/node-behaviour.md, "Compression and connections".
  const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => {
    response.end('[]')
  })
  let opened = 0
  server.on('connection', () => opened++)
  let lost = 0
  const connections = new ConnectionPool({
    maxBufferedBytes: 1000,
    url: await listening(t, server),
    headers: {},
    timeoutMs: 5000,
    maxConcurrent: 1,
    caFile: null,
    now: () => performance.now(),
    onConnectionLost: () => lost++
  })
  t.teardown(async () => await connections.close())
  const fetch = async (): Promise<number> => (await new Exchange(connections, probeRequest('/v1')).received).status
  t.equal(await fetch(), 200)
  const idle = startIdleMeter()
  await until(() => idle() > 6000, 'no read for 6 s')
  t.equal(await fetch(), 200)
  t.equal(opened, 1)
  t.equal(lost, 0, 'the chain needs no new proof')
})
