import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { type SecureContextOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { certificate, certificateKey as key, certificateUntil } from '../support/certificate.js'
import { sendRequest } from '../support/client.js'
import { listening, respondOk, respondToIndex, stamps, startEmptyUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const expired = certificateUntil(new Date(Date.now() - 1000))
const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`

async function startTlsUpstream (
  t: Test,
  options: SecureContextOptions = { cert: certificate, key }
) {
  const requests: string[] = []
  const server = createServer(options, (request, response) => {
    requests.push(String(request.url))
    if (request.url === '/v1') return respondToIndex(request, response)
    if (request.url?.startsWith('/v1/blocks/') === true) return response.writeHead(404, stamps()).end()
    respondOk(response, '[]')
  })
  const port = Number(new URL(await listening(t, server)).port)
  // The next request needs a handshake after it.
  return { server, port, requests, disconnect: () => server.closeAllConnections() }
}

async function degradedAt ({ adminUrl }: TestVarve): Promise<string> {
  return (JSON.parse((await sendRequest(adminUrl, '/readyz')).body) as { degraded: string[] }).degraded.join('\n')
}

t.test('an upstream with a bad certificate gets no request, and its reason is on the page', async t => {
  const caFile = join(t.testdir({ 'ca.pem': `${certificate}\n${expired}` }), 'ca.pem')
  const plain = await startEmptyUpstream(t)
  const cases: Array<[what: string, options: SecureContextOptions, host: string, caFile: string | null, code: string]> =
    [
      ['no CA vouches for it', { cert: certificate, key }, '127.0.0.1', null, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
      ['it has expired', { cert: expired, key }, '127.0.0.1', caFile, 'CERT_HAS_EXPIRED'],
      ['it names another host', { cert: certificate, key }, 'localhost', caFile, 'ERR_TLS_CERT_ALTNAME_INVALID'],
      [
        'TLS is too old',
        { cert: certificate, key, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
        '127.0.0.1',
        caFile,
        'ERR_SSL_'
      ],
      ['it speaks plain HTTP', {}, '', caFile, 'no TLS on this port; use http://']
    ]
  await Promise.all(cases.map(async ([what, options, host, caFile, code]) => {
    const upstream = host === '' ? undefined : await startTlsUpstream(t, options)
    const url = upstream === undefined ? plain.url.replace('http:', 'https:') : `https://${host}:${upstream.port}`
    const varve = await varveAt(t, url, { upstream: { caFile } })
    t.match(await varve.get(modules(500)), { status: 503, headers: { 'retry-after': '1' } }, what)
    t.match(await degradedAt(varve), `node is down: TLS error: ${code}`, what)
    t.same([upstream?.requests ?? [], plain.requests], [[], []], what)
  }))
})

t.test('a certificate that goes bad takes no hit away; once it is good, its upstream is used again', async t => {
  const caFile = join(t.testdir({ 'ca.pem': `${certificate}\n${expired}` }), 'ca.pem')
  const { server, port, disconnect } = await startTlsUpstream(t)
  const varve = await varveAt(t, `https://127.0.0.1:${port}`, { upstream: { caFile }, head: { pollMs: 100 } })
  t.match(await varve.get(modules(500)), { status: 200 })
  server.setSecureContext({ cert: expired, key })
  disconnect()
  await until(
    async () => (await degradedAt(varve)).includes('node is down: TLS error: CERT_HAS_EXPIRED'),
    'readiness reports the TLS error'
  )
  t.match(await varve.get(modules(500)), { status: 200, headers: { 'cache-status': /hit/ } })
  t.match(await varve.get(modules(501)), { status: 503 })
  server.setSecureContext({ cert: certificate, key })
  await until(async () => (await varve.get(modules(501))).status === 200, 'the upstream serves reads again')
})

t.test('a reload reads a renewed file of an upstream under the same path', async t => {
  const caFile = join(t.testdir({ 'ca.pem': expired }), 'ca.pem')
  const { port } = await startTlsUpstream(t)
  const upstreams = [{ name: 'node', url: `https://127.0.0.1:${port}`, caFile }]
  const varve = await varveAt(t, '', { upstreams: upstreams as never })
  t.equal((await varve.get(modules(500))).status, 503, 'the file trusts another certificate')
  writeFileSync(caFile, certificate)
  await varve.reload(configSchema.parse({ upstreams }))
  await until(async () => (await varve.get(modules(500))).status === 200, 'the upstream serves reads')
})
