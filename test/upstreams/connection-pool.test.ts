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
  const fetchWith = async (caCertificates?: string[]): Promise<number> => {
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
  t.equal(await fetchWith([certificate]), 200)
  await t.rejects(fetchWith(), /certificate/)
})

t.test('varve shows its certificate to an upstream that asks for one', async t => {
  const server = createServer({
    cert: certificate,
    key: certificateKey,
    ca: certificate,
    requestCert: true,
    rejectUnauthorized: true
  }, (_request, response) => {
    response.end('[]')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
  })
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey, 'x.pem': 'no certificate' })
  const [certFile, keyFile] = [join(dir, 'c.pem'), join(dir, 'k.pem')]
  const fetchWith = async (own: { certFile: string, keyFile: string } | undefined): Promise<number> => {
    const connections = new ConnectionPool({
      url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
      headers: {},
      timeoutMs: 5000,
      maxConcurrent: 1,
      caFile: certFile,
      ...own,
      now: () => performance.now()
    })
    t.teardown(async () => {
      await connections.close()
    })
    return (await connections.send(probeRequest('/v1'), 1000, undefined, () => {}).received).status
  }
  t.equal(await fetchWith({ certFile, keyFile }), 200)
  await t.rejects(fetchWith(undefined))
  await t.rejects(fetchWith({ certFile: join(dir, 'x.pem'), keyFile }), {
    message: /^certFile .* holds no certificate/
  })
})
