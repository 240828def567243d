import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { cipherListOf } from '../../src/config/ciphers.js'
import { Certificate, type TlsIdentity } from '../../src/http/certificate.js'
import { certificate, certificateKey, encryptedKey, renewedCertificate, renewedKey } from '../support/certificate.js'
import { listening } from '../support/stub-upstream.js'

const dayMs = 86_400_000
const policy = { minVersion: 'TLSv1.2', ciphers: cipherListOf(null) } as const
const first = new X509Certificate(certificate)
const second = new X509Certificate(renewedCertificate)

/** Certificate in files that a test can change, with a clock and checks that the test controls. */
function inFiles (t: Test, cert = certificate, key = certificateKey) {
  const dir = t.testdir({ 'c.pem': cert, 'k.pem': key })
  const [certFile, keyFile] = [join(dir, 'c.pem'), join(dir, 'k.pem')]
  const log: Array<Record<string, unknown>> = []
  const reported: TlsIdentity[] = []
  const clock = { ms: Date.parse(second.validFrom) + dayMs }
  const served = new Certificate({
    certFile,
    keyFile,
    policy,
    wallClockMs: () => clock.ms,
    log: pino({}, { write: line => log.push(JSON.parse(line)) }),
    checkEveryMs: 3_600_000
  })
  served.watch(identity => reported.push(identity))
  t.teardown(() => served.close())
  return {
    served,
    log,
    reported,
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
  const { served, log, reported, write } = inFiles(t)
  await served.check()
  write(renewedCertificate, renewedKey)
  await served.check()
  t.equal(reported.length, 0, 'it may not be written completely yet')
  await served.check()
  await served.check()
  t.same(reported.map(({ cert }) => cert.toString()), [renewedCertificate])
  t.same([served.notAfterSeconds, served.warnings], [Date.parse(second.validTo) / 1000, []])
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
    const { served, log, reported, write } = inFiles(t)
    write(cert, key)
    for (let nth = 0; nth < 5; nth++) await served.check()
    t.match([log.length, log[0]], [1, { level: 50, reason, msg: /rejected: the current one stays in use/ }], what)
    t.match(served.warnings, [/^a renewed certificate was rejected: /], what)
    t.same([reported.length, served.identity.cert.toString()], [0, certificate], what)
    await t.rejects(served.prepareRenewal(), { message: reason }, 'an operator who requests a reload gets the reason')
    write(renewedCertificate, renewedKey)
    for (let nth = 0; nth < 3; nth++) await served.check()
    t.same([reported.length, served.warnings, log.length], [1, [], 2], what)
  }
})

t.test('a file missing for one check is not reported, and one that stays missing is reported once', async t => {
  const { served, log, write, certFile } = inFiles(t)
  rmSync(certFile)
  await served.check()
  write(certificate, certificateKey)
  await served.check()
  await served.check()
  t.same([log, served.warnings], [[], []])
  rmSync(certFile)
  for (let nth = 0; nth < 4; nth++) await served.check()
  t.match([log.length, log[0]], [1, { level: 50, reason: /ENOENT/ }])
  write(certificate, certificateKey)
  await served.check()
  t.same(served.warnings, [], 'the certificate in use is back')
})

t.test('an expired or not yet valid certificate never replaces a valid one; it may become valid', async t => {
  const { served, log, reported, clock, write } = inFiles(t)
  clock.ms = Date.parse(second.validFrom) - dayMs
  write(renewedCertificate, renewedKey)
  for (let nth = 0; nth < 3; nth++) await served.check()
  t.match([log.length, log[0], reported.length], [1, { reason: /^it is not valid before .*Z$/ }, 0])
  clock.ms += 2 * dayMs
  await served.check()
  t.equal(reported.length, 1)
  clock.ms = Date.parse(first.validTo) + dayMs
  write(certificate, certificateKey)
  for (let nth = 0; nth < 3; nth++) await served.check()
  t.match([log.at(-1), reported.length], [{ reason: /^it expired on .*Z$/ }, 1])
})

t.test('the operator is warned days before the certificate in use expires, and after it has', async t => {
  const { served, clock } = inFiles(t)
  const end = Date.parse(first.validTo)
  const at = (beforeMs: number): string[] => {
    clock.ms = end - beforeMs
    return served.warnings
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

/** Starts a listener whose certificate is mounted like a Kubernetes secret: behind a symbolic link. */
async function listener (t: Test) {
  const dir = t.testdir({
    old: { 'c.pem': certificate, 'k.pem': certificateKey },
    new: { 'c.pem': renewedCertificate, 'k.pem': renewedKey }
  })
  const link = join(dir, 'now')
  symlinkSync(join(dir, 'old'), link)
  const served = new Certificate({
    certFile: join(link, 'c.pem'),
    keyFile: join(link, 'k.pem'),
    policy,
    wallClockMs: () => Date.parse(second.validFrom) + dayMs,
    log: pino({ level: 'silent' })
  })
  const server = createServer({ ...served.identity }, (_request, response) => response.end('ok'))
  served.watch(identity => server.setSecureContext(identity))
  t.teardown(() => served.close())
  const port = Number(new URL(await listening(t, server)).port)
  return {
    served,
    rotate: () => {
      symlinkSync(join(dir, 'new'), `${link}.next`)
      renameSync(`${link}.next`, link)
    },
    to: async (options: ConnectionOptions = {}): Promise<TLSSocket> => {
      const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options })
      t.teardown(() => socket.destroy())
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

async function exchange (socket: TLSSocket): Promise<string> {
  const received = once(socket, 'data')
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  return String((await received)[0])
}

t.test('open connections keep the old certificate; new and resumed ones get the renewed one', async t => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const { served, rotate, to } = await listener(t)
    const open = await to({ maxVersion: version })
    const ticket = new Promise<Buffer>(resolve => open.once('session', resolve))
    t.match(await exchange(open), /^HTTP\/1\.1 200 OK[^]*ok$/)
    const session = open.getSession() ?? await ticket
    rotate()
    await served.check()
    await served.check()
    t.match(await exchange(open), /^HTTP\/1\.1 200 OK[^]*ok$/)
    t.equal(open.getPeerCertificate().fingerprint256, first.fingerprint256)
    t.equal((await to({ maxVersion: version })).getPeerCertificate().fingerprint256, second.fingerprint256)
    const resumed = await to({ maxVersion: version, session: version === 'TLSv1.2' ? session : await ticket })
    t.equal(resumed.isSessionReused(), false)
    t.equal(resumed.getPeerCertificate().fingerprint256, second.fingerprint256, version)
  }
})

t.test('before and after a renewal the listener accepts only TLS 1.2 or later and only HTTP/1.1', async t => {
  const { served, rotate, to } = await listener(t)
  for (const when of ['before', 'after']) {
    await t.rejects(to({ minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }), {
      message: /alert protocol version/
    }, when)
    t.equal((await to({ ALPNProtocols: ['h2', 'http/1.1'] })).alpnProtocol, 'http/1.1')
    await t.rejects(to({ ALPNProtocols: ['h2'] }), { message: /no application protocol/ })
    rotate()
    await served.check()
    await served.check()
  }
})
