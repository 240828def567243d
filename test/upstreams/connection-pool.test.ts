import { createServer, type ServerOptions } from 'node:https'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import t, { type Test } from 'tap'
import { ConnectionPool } from '../../src/upstreams/connection-pool.js'
import { Exchange } from '../../src/upstreams/exchange.js'
import { probeRequest } from '../../src/upstreams/upstream-request.js'
import { certificate, certificateKey } from '../support/certificate.js'
import { listening } from '../support/stub-upstream.js'

type Own = Partial<Omit<ConstructorParameters<typeof ConnectionPool>[0], 'maxBufferedBytes'>> & {
  readonly caFile: string
}

/** Starts an https upstream; returns what fetches its status with settings of the pool. */
async function upstreamWith (t: Test, options: ServerOptions = {}): Promise<(own: Own) => Promise<number>> {
  const server = createServer({ cert: certificate, key: certificateKey, ...options }, (_request, response) => {
    response.end('[]')
  })
  const { port } = new URL(await listening(t, server))
  return async own => {
    const connections = new ConnectionPool({
      maxBufferedBytes: 1000,
      url: `https://127.0.0.1:${port}`,
      headers: {},
      timeoutMs: 5000,
      maxConcurrent: 1,
      now: () => performance.now(),
      ...own
    })
    t.teardown(async () => await connections.close())
    return (await new Exchange(connections, probeRequest('/v1')).received).status
  }
}

t.test('caFile adds to the default CAs and does not replace them', async t => {
  const fetchWith = await upstreamWith(t)
  const [another = ''] = rootCertificates
  const caFile = join(t.testdir({ 'ca.pem': another }), 'ca.pem')
  t.equal(await fetchWith({ caFile, caCertificates: [certificate] }), 200)
  await t.rejects(fetchWith({ caFile }), /certificate/)
})

t.test('varve shows its certificate to an upstream that asks for one', async t => {
  const fetchWith = await upstreamWith(t, { ca: certificate, requestCert: true, rejectUnauthorized: true })
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const [certFile, keyFile] = [join(dir, 'c.pem'), join(dir, 'k.pem')]
  t.equal(await fetchWith({ caFile: certFile, certFile, keyFile }), 200)
  await t.rejects(fetchWith({ caFile: certFile }))
})
