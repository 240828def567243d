import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { cipherListOf } from '../../src/config/ciphers.js'
import { Certificate, type TlsIdentity } from '../../src/http/certificate.js'
import { certificate, certificateKey, encryptedKey, renewedCertificate, renewedKey } from '../support/certificate.js'
import { until } from '../support/until.js'

const dayMs = 86_400_000
const policy = { minVersion: 'TLSv1.2', ciphers: cipherListOf(null) } as const
const first = new X509Certificate(certificate)
const second = new X509Certificate(renewedCertificate)

/** Certificate in files that a test can change, with a clock and checks that the test controls. */
function inFiles (t: Test, cert = certificate, key = certificateKey) {
  const dir = t.testdir({ 'c.pem': cert, 'k.pem': key })
  const [certFile, keyFile] = [join(dir, 'c.pem'), join(dir, 'k.pem')]
  const log: Array<Record<string, unknown>> = []
  const shown: TlsIdentity[] = []
  const clock = { ms: Date.parse(second.validFrom) + dayMs }
  const held = new Certificate({
    certFile,
    keyFile,
    policy,
    wallClockMs: () => clock.ms,
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    checkEveryMs: 3_600_000
  })
  held.watch(identity => shown.push(identity))
  t.teardown(() => {
    held.close()
  })
  return {
    held,
    log,
    shown,
    clock,
    certFile,
    keyFile,
    write: (cert: string, key: string) => {
      writeFileSync(certFile, cert)
      writeFileSync(keyFile, key)
    }
  }
}

t.test('a renewed certificate is used once two checks agree, and the log has its expiry date', async t => {
  const { held, log, shown, write } = inFiles(t)
  await held.check()
  write(renewedCertificate, renewedKey)
  await held.check()
  t.equal(shown.length, 0, 'it may not be written completely yet')
  await held.check()
  await held.check()
  t.same(shown.map(({ cert }) => cert.toString()), [renewedCertificate])
  t.same([held.notAfterSeconds, held.warnings], [Date.parse(second.validTo) / 1000, []])
  t.match(log, [{
    level: 30,
    msg: 'renewed certificate in use',
    notAfter: new Date(second.validTo).toISOString()
  }])
  t.equal(log.length, 1)
})

t.test('an unusable certificate is rejected with one log message, and accepted once it is fixed', async t => {
  const half = renewedCertificate.slice(0, 300)
  const cases: Array<[what: string, cert: string, key: string, reason: RegExp]> = [
    ['key and certificate of two renewals', renewedCertificate, certificateKey, /not a certificate with its key/],
    ['half a certificate', half, renewedKey, /not a certificate with its key/],
    [
      'a chain of which the second is cut',
      `${renewedCertificate}\n${half}`,
      renewedKey,
      /not a certificate with its key/
    ],
    ['empty files', '', '', /not a certificate with its key/],
    ['a key with a passphrase', renewedCertificate, encryptedKey, /encrypted with a passphrase/]
  ]
  for (const [what, cert, key, reason] of cases) {
    const { held, log, shown, write } = inFiles(t)
    write(cert, key)
    for (let nth = 0; nth < 5; nth++) await held.check()
    t.match([log.length, log[0]], [1, { level: 50, reason, msg: /rejected: the current one stays in use/ }], what)
    t.match(held.warnings, [/^a renewed certificate was rejected: /], what)
    t.same([shown.length, held.identity.cert.toString()], [0, certificate], what)
    await t.rejects(held.prepareRenewal(), { message: reason }, 'an operator who requests a reload gets the reason')
    write(renewedCertificate, renewedKey)
    for (let nth = 0; nth < 3; nth++) await held.check()
    t.same([shown.length, held.warnings, log.length], [1, [], 2], what)
  }
})

t.test('a file missing for one check is not reported, and one that stays missing is reported once', async t => {
  const { held, log, write, certFile } = inFiles(t)
  rmSync(certFile)
  await held.check()
  write(certificate, certificateKey)
  await held.check()
  await held.check()
  t.same([log, held.warnings], [[], []])
  rmSync(certFile)
  for (let nth = 0; nth < 4; nth++) await held.check()
  t.match([log.length, log[0]], [1, { level: 50, reason: /ENOENT/ }])
  write(certificate, certificateKey)
  await held.check()
  t.same(held.warnings, [], 'the certificate in use is back')
})

t.test('an expired or not yet valid certificate never replaces a valid one; it may become valid', async t => {
  const { held, log, shown, clock, write } = inFiles(t)
  clock.ms = Date.parse(second.validFrom) - dayMs
  write(renewedCertificate, renewedKey)
  for (let nth = 0; nth < 3; nth++) await held.check()
  t.match([log.length, log[0], shown.length], [1, { reason: /^it is not valid before .*Z$/ }, 0])
  clock.ms += 2 * dayMs
  await held.check()
  t.equal(shown.length, 1)
  clock.ms = Date.parse(first.validTo) + dayMs
  write(certificate, certificateKey)
  for (let nth = 0; nth < 3; nth++) await held.check()
  t.match([log.at(-1), shown.length], [{ reason: /^it expired on .*Z$/ }, 1])
})

t.test('the operator is warned days before the certificate in use expires, and after it has', async t => {
  const { held, clock } = inFiles(t)
  const end = Date.parse(first.validTo)
  const at = (beforeMs: number): string[] => {
    clock.ms = end - beforeMs
    return held.warnings
  }
  t.same(at(8 * dayMs), [])
  t.same(at(6 * dayMs), [`the certificate in use expires on ${new Date(end).toISOString()}`])
  t.same(at(-1), [`the certificate in use expired on ${new Date(end).toISOString()}`])
})

t.test('varve does not start with a key of another certificate or with an encrypted key', async t => {
  t.throws(() => inFiles(t, certificate, renewedKey), {
    message: /^tls\.certFile and tls\.keyFile are not a certificate with its key: /
  })
  t.throws(() => inFiles(t, renewedCertificate, encryptedKey), {
    message: 'tls.keyFile is encrypted with a passphrase, which varve cannot ask for: expected an unencrypted key'
  })
})

t.test('checks run periodically, one at a time', async t => {
  const dir = t.testdir({ 'c.pem': certificate, 'k.pem': certificateKey })
  const held = new Certificate({
    certFile: join(dir, 'c.pem'),
    keyFile: join(dir, 'k.pem'),
    policy,
    wallClockMs: () => Date.parse(second.validFrom) + dayMs,
    log: pino({ level: 'silent' }),
    checkEveryMs: 5
  })
  t.teardown(() => {
    held.close()
  })
  const shown: TlsIdentity[] = []
  held.watch(identity => shown.push(identity))
  writeFileSync(join(dir, 'k.pem'), renewedKey)
  writeFileSync(join(dir, 'c.pem'), renewedCertificate)
  await until(() => shown.length > 0, 'it is found')
  t.equal(shown.length, 1)
  held.close()
  // Waits for a check in flight, which would have read the old files.
  await held.check()
  writeFileSync(join(dir, 'k.pem'), certificateKey)
  writeFileSync(join(dir, 'c.pem'), certificate)
  await Promise.all([held.check(), held.check(), held.check()])
  t.equal(shown.length, 1, 'three concurrent checks are one')
  await held.check()
  t.equal(shown.length, 2)
})

/** Starts a listener whose certificate is mounted like a Kubernetes secret: behind a symbolic link. */
async function listener (t: Test) {
  const dir = t.testdir({
    old: { 'c.pem': certificate, 'k.pem': certificateKey },
    new: { 'c.pem': renewedCertificate, 'k.pem': renewedKey }
  })
  const link = join(dir, 'now')
  symlinkSync(join(dir, 'old'), link)
  const held = new Certificate({
    certFile: join(link, 'c.pem'),
    keyFile: join(link, 'k.pem'),
    policy,
    wallClockMs: () => Date.parse(second.validFrom) + dayMs,
    log: pino({ level: 'silent' })
  })
  const server = createServer({ ...held.identity }, (_request, response) => {
    response.end('well')
  })
  held.watch(identity => {
    server.setSecureContext(identity)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    held.close()
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    held,
    turn: () => {
      symlinkSync(join(dir, 'new'), `${link}.next`)
      renameSync(`${link}.next`, link)
    },
    to: async (options: ConnectionOptions = {}): Promise<TLSSocket> => {
      const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
      t.teardown(() => {
        socket.destroy()
      })
      await Promise.race([
        once(socket, 'secureConnect'),
        once(socket, 'error').then(([error]) => {
          throw error
        })
      ])
      return socket
    }
  }
}

async function says (socket: TLSSocket): Promise<string> {
  const heard = once(socket, 'data')
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  return String((await heard)[0])
}

t.test('open connections keep the old certificate; new and resumed ones get the renewed one', async t => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const { held, turn, to } = await listener(t)
    const open = await to({ maxVersion: version })
    const ticket = new Promise<Buffer>(resolve => open.once('session', resolve))
    t.match(await says(open), /^HTTP\/1\.1 200 OK[^]*well/)
    const session = open.getSession() ?? await ticket
    turn()
    await held.check()
    await held.check()
    t.match(await says(open), /^HTTP\/1\.1 200 OK[^]*well/)
    t.equal(open.getPeerCertificate().fingerprint256, first.fingerprint256)
    t.equal((await to({ maxVersion: version })).getPeerCertificate().fingerprint256, second.fingerprint256)
    const resumed = await to({ maxVersion: version, session: version === 'TLSv1.2' ? session : await ticket })
    t.equal(resumed.isSessionReused(), false)
    t.equal(resumed.getPeerCertificate().fingerprint256, second.fingerprint256, version)
  }
})

t.test('before and after a renewal the listener accepts only TLS 1.2 or later and only HTTP/1.1', async t => {
  const { held, turn, to } = await listener(t)
  for (const when of ['before', 'after']) {
    await t.rejects(to({ minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }), {
      message: /alert protocol version/
    }, when)
    t.equal((await to({ ALPNProtocols: ['h2', 'http/1.1'] })).alpnProtocol, 'http/1.1')
    await t.rejects(to({ ALPNProtocols: ['h2'] }), { message: /no application protocol/ })
    turn()
    await held.check()
    await held.check()
  }
})
