import { renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { certificate, certificateKey, renewedCertificate, renewedKey } from '../support/certificate.js'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { openRaw, statusesIn, subjectAt } from '../support/raw.js'
import { until } from '../support/until.js'
import { quietConfig, varveAt } from '../support/varve.js'

// Allows for two checks of the files, 10 s apart, before a change is loaded.
const soonMs = 40_000

t.test('each worker loads a renewed certificate without losing connections; /readyz names errors', async t => {
  const upstream = await startSandboxNode(t, { prunedBlocks: 0 })
  const dir = t.testdir({
    old: { 'c.pem': certificate, 'k.pem': certificateKey },
    new: { 'c.pem': renewedCertificate, 'k.pem': certificateKey }
  })
  const link = join(dir, 'now')
  symlinkSync(join(dir, 'old'), link)
  const varve = await varveAt(t, upstream.url, {
    ...quietConfig,
    workers: 2,
    tls: { certFile: join(link, 'c.pem'), keyFile: join(link, 'k.pem') }
  })
  const read = 'GET /v1/accounts/0x1/modules?ledger_version=2000&limit=1 HTTP/1.1\r\nHost: x\r\n\r\n'
  const open = [openRaw(t, varve.url, read), openRaw(t, varve.url, read)]
  const untilAnswered = async (times: number): Promise<void> => {
    await until(() => open.every(({ text }) => statusesIn(text).length === times), `${times} responses on each`)
  }
  await untilAnswered(1)
  const readiness = async (): Promise<string> => (await sendRequest(varve.adminUrl, '/readyz')).body
  const subjects = async (): Promise<string> =>
    String([
      ...new Set([
        await subjectAt(varve.url),
        await subjectAt(varve.url),
        await subjectAt(varve.url),
        await subjectAt(varve.url)
      ])
    ])
  await until(
    async () => (await readiness()).startsWith('{"ready":true,"level":"green","degraded":[]'),
    'varve is ready at level green'
  )
  const before = await varve.metric('varve_tls_certificate_not_after_seconds')

  symlinkSync(join(dir, 'new'), `${link}.next`)
  renameSync(`${link}.next`, link)
  await until(
    async () =>
      /a renewed certificate was rejected: tls.certFile and tls.keyFile are not a certificate with its key/.test(
        await readiness()
      ),
    'the mismatched key is reported',
    soonMs
  )
  t.equal(await subjects(), 'CN=127.0.0.1')

  writeFileSync(join(dir, 'new', 'k.pem'), renewedKey)
  // One handshake at a time costs less, for the most of the wait.
  await until(async () => await subjectAt(varve.url) === 'CN=renewed.example', 'a process shows it', soonMs)
  await until(async () => await subjects() === 'CN=renewed.example', 'each process shows the new certificate', soonMs)
  await until(
    async () => (await readiness()).startsWith('{"ready":true,"level":"green","degraded":[]'),
    'varve is ready at level green'
  )
  t.not(await varve.metric('varve_tls_certificate_not_after_seconds'), before)
  for (const { socket } of open) socket.write(read)
  await untilAnswered(2)
  for (const { text } of open) t.same(statusesIn(text), [200, 200], 'a connection from before lives on')
})
