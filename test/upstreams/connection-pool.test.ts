import { once } from 'node:events'
import { createServer } from 'node:https'
import { type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import t from 'tap'
import { ConnectionPool } from '../../src/upstreams/connection-pool.js'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { certificate, certificateKey } from '../support/certificate.js'

t.test('caFile adds to the default CAs and does not replace them', async t => {
  const server = createServer({ cert: certificate, key: certificateKey }, (_request, response) => {
    response.end('[]')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const [another = ''] = rootCertificates
  const caFile = join(t.testdir({ 'ca.pem': another }), 'ca.pem')
  const askWith = async (caCertificates?: string[]): Promise<number> => {
    const connections = new ConnectionPool({
      url: `https://127.0.0.1:${port}`,
      headers: {},
      timeoutMs: 5000,
      maxConcurrent: 1,
      caFile,
      ...(caCertificates && { caCertificates }),
      now: () => performance.now()
    })
    t.teardown(async () => {
      await connections.close()
    })
    return (await connections.send(probeRequest('/v1'), 1000, undefined, () => {}).received).status
  }
  t.equal(await askWith([certificate]), 200)
  await t.rejects(askWith(), /certificate/)
})
