import { join } from 'node:path'
import { connect, type SecureVersion } from 'node:tls'
import t, { type Test } from 'tap'
import { configSchema } from '../../src/config/schema.js'
import { certificate, certificateKey, rsaCertificate, rsaKey } from '../support/certificate.js'
import { startEmptyUpstream } from '../support/stub-upstream.js'
import { type TestVarve, varveAt } from '../support/varve.js'

type Key = 'rsa' | 'ecdsa'
type Tls = { readonly ciphers?: string, readonly minVersion?: 1.3 }

async function over (t: Test, key: Key, tls: Tls = {}, more: object = {}): Promise<TestVarve> {
  const stub = await startEmptyUpstream(t)
  const [cert, secret] = key === 'rsa' ? [rsaCertificate, rsaKey] : [certificate, certificateKey]
  const dir = t.testdir({ 'c.pem': cert, 'k.pem': secret })
  return await varveAt(t, stub.url, {
    tls: { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem'), ...tls },
    ...more
  })
}

/** Connects with these ciphers; returns the one used and the status, or that the handshake failed. */
async function offered (
  url: string,
  ciphers: string | undefined,
  maxVersion: SecureVersion = 'TLSv1.2'
): Promise<string> {
  const { hostname, port } = new URL(url)
  return await new Promise(resolve => {
    const socket = connect({
      host: hostname,
      port: Number(port),
      rejectUnauthorized: false,
      maxVersion,
      ...(ciphers !== undefined && { ciphers })
    })
    socket.on('error', () => resolve('rejected'))
    socket.on('secureConnect', () => {
      socket.write('GET /v1/accounts/0x1/modules?ledger_version=500 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    })
    socket.on('data', chunk => {
      resolve(`${socket.getProtocol()} ${socket.getCipher().name} ${String(chunk).slice(9, 12)}`)
      socket.destroy()
    })
  })
}

const secure: Readonly<Record<Key, readonly string[]>> = {
  rsa: ['ECDHE-RSA-AES128-GCM-SHA256', 'ECDHE-RSA-AES256-GCM-SHA384', 'ECDHE-RSA-CHACHA20-POLY1305'],
  ecdsa: ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384', 'ECDHE-ECDSA-CHACHA20-POLY1305']
}
const weak: Readonly<Record<Key, readonly string[]>> = {
  rsa: [
    'AES128-GCM-SHA256',
    'AES256-GCM-SHA384',
    'AES128-SHA',
    'AES256-SHA256',
    'ECDHE-RSA-AES128-SHA256',
    'ECDHE-RSA-AES256-SHA384',
    'ECDHE-RSA-AES128-SHA'
  ],
  ecdsa: ['ECDHE-ECDSA-AES128-SHA256', 'ECDHE-ECDSA-AES256-SHA384', 'ECDHE-ECDSA-AES128-SHA']
}
const ofTls13 = ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']

for (const key of ['rsa', 'ecdsa'] as const) {
  t.test(`with a key of ${key.toUpperCase()}, TLS 1.2 needs forward secrecy and AEAD; TLS 1.3 works`, async t => {
    const { url } = await over(t, key)
    for (const cipher of secure[key]) t.equal(await offered(url, cipher), `TLSv1.2 ${cipher} 200`)
    for (const cipher of weak[key]) t.equal(await offered(url, cipher), 'rejected', cipher)
    for (const cipher of ofTls13) t.equal(await offered(url, cipher, 'TLSv1.3'), `TLSv1.3 ${cipher} 200`)
    t.match(await offered(url, undefined), /^TLSv1\.2 ECDHE-.*(?:GCM|CHACHA20).* 200$/, 'a modern client is served')
    t.match(await offered(url, undefined, 'TLSv1.3'), /^TLSv1\.3 .* 200$/)
  })
}

t.test('tls.ciphers replaces only TLS 1.2 ciphers, unless it names TLS 1.3 suites', async t => {
  const old = await over(t, 'rsa', { ciphers: 'ECDHE-RSA-AES128-SHA256:AES128-SHA' })
  t.equal(await offered(old.url, 'AES128-SHA'), 'TLSv1.2 AES128-SHA 200', 'a weak cipher that the operator names')
  t.equal(await offered(old.url, 'ECDHE-RSA-AES128-GCM-SHA256'), 'rejected')
  for (const cipher of ofTls13) t.equal(await offered(old.url, cipher, 'TLSv1.3'), `TLSv1.3 ${cipher} 200`)
  const narrow = await over(t, 'rsa', { ciphers: 'TLS_AES_256_GCM_SHA384:ECDHE+AESGCM:!AES128' })
  t.equal(await offered(narrow.url, 'TLS_AES_128_GCM_SHA256', 'TLSv1.3'), 'rejected')
  t.equal(await offered(narrow.url, 'TLS_AES_256_GCM_SHA384', 'TLSv1.3'), 'TLSv1.3 TLS_AES_256_GCM_SHA384 200')
  t.equal(await offered(narrow.url, 'ECDHE-RSA-AES128-GCM-SHA256'), 'rejected')
  t.equal(await offered(narrow.url, 'ECDHE-RSA-AES256-GCM-SHA384'), 'TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384 200')
})

t.test('tls.minVersion 1.3 rejects TLS 1.2, also with workers', async t => {
  for (const workers of [1, 2]) {
    const { url } = await over(t, 'ecdsa', { minVersion: 1.3 }, { workers })
    t.equal(await offered(url, undefined), 'rejected')
    t.match(await offered(url, undefined, 'TLSv1.3'), /^TLSv1\.3 .* 200$/)
  }
})

t.test('a cipher this build lacks is an error that names tls.ciphers and the item, not its text', async t => {
  const mistake = (tls: object): unknown =>
    configSchema.safeParse({ tls }).error?.issues.map(({ path, message }) => [path.join('.'), message])
  const cases = [
    ['nonsense', /item 1\b/],
    ['ECDHE+AESGCM:ECDHE-RSA-AES128-GMC-SHA256', /item 2\b/],
    ['TLS_AES_512_GCM_SHA256', /item 1\b/],
    ['', /item 1\b/],
    ['ECDHE+AESGCM:', /item 2\b/],
    ['ECDHE+AESGCM, AES128-SHA', /item 1\b/],
    ['ECDHE+AESGCM:!AESGCM', /leave no cipher/]
  ] as const
  for (const [ciphers, message] of cases) {
    t.match(mistake({ ciphers }), [['tls.ciphers', /^expected a cipher list of OpenSSL/]], ciphers)
    t.match(mistake({ ciphers }), [['tls.ciphers', message]], ciphers)
    t.notMatch(JSON.stringify(mistake({ ciphers })), /nonsense|GMC|512/)
  }
  for (
    const ciphers of [null, 'HIGH:!aNULL:!MD5:!RC4', 'ECDHE+AESGCM:ECDHE+CHACHA20:@STRENGTH', 'TLS_AES_128_GCM_SHA256']
  ) t.same(mistake({ ciphers }), undefined, String(ciphers))
  for (const minVersion of [1, 1.1, 2, '1.2', 'TLSv1.2']) {
    t.match(mistake({ minVersion }), [['tls.minVersion', String]], String(minVersion))
  }
})
