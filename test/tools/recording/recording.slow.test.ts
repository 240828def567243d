import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { readRecording } from '../../../src/tools/recording/read-recording.js'
import { startSandbox } from '#sandbox'
import { certificate, certificateKey } from '../../support/certificate.js'
import { sendRequest } from '../../support/client.js'
import { killOnExit } from '../../support/kill-on-exit.js'
import { startReplay } from '../../support/recorder-and-replay.js'
import { until } from '../../support/until.js'
import { varveAt } from '../../support/varve.js'

const program = join(import.meta.dirname, '../../../dist/cli.js')

/** Starts a recorder process as a user does. */
async function record (
  t: Test,
  upstreamUrl: string,
  limits = '',
  flags: readonly string[] = []
): Promise<{ child: ChildProcess, url: string, file: string, output: () => string, ended: Promise<unknown[]> }> {
  const folder = mkdtempSync(join(tmpdir(), 'varve-record-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  const file = join(folder, 'report.jsonl')
  const child = spawn('sh', [
    '-c',
    `${limits} exec "$0" "$@"`,
    process.execPath,
    ...flags,
    program,
    'record',
    '--upstream',
    upstreamUrl,
    '--out',
    file,
    '--listen',
    '127.0.0.1:0'
  ], { stdio: ['ignore', 'pipe', 'pipe'] })
  killOnExit(child, folder)
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', text => {
      output += String(text)
    })
  }
  const ended = once(child, 'close')
  await until(() => /forwards to/.test(output), 'the recorder listens')
  return { child, url: /record: (\S+)/.exec(output)?.[1] ?? '', file, output: () => output, ended }
}

async function sandboxOf (t: Test): Promise<string> {
  const sandbox = await startSandbox({ blockMs: 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  return sandbox.url
}

t.test('Ctrl-C lets a recording finish requests in progress, write all and report the total', async t => {
  const { child, url, file, output, ended } = await record(t, await sandboxOf(t))
  const varve = await varveAt(t, url)
  const target = (nth: number): string => `/v1/blocks/by_version/${14_300 + nth}?with_transactions=true`
  const bodies = new Map<string, string>()
  const reading = Array.from({ length: 40 }, async (_, nth) => {
    const { status, body } = await varve.get(target(nth * 20))
    if (status === 200) bodies.set(target(nth * 20), body)
  })
  await until(() => bodies.size > 10, 'ten reads have a response')
  child.kill('SIGINT')
  await Promise.all(reading)
  t.same(await ended, [0, null])
  t.match(output(), /\n\d+ requests? with (?:its|their) responses? in \d+ s, [\d.]+ [KM]B: .*report\.jsonl\n$/)
  const { exchanges, isTorn } = await readRecording(createReadStream(file))
  t.equal(isTorn, false)
  t.ok(output().includes(`\n${exchanges.length} requests`))
  const again = await varveAt(t, (await startReplay(t, file)).url)
  for (const [target, body] of bodies) t.equal((await again.get(target)).body, body, target)
})

t.test('the recorder reads over TLS from a certificate that NODE_EXTRA_CA_CERTS vouches for', async t => {
  const server = createSecureServer({ cert: certificate, key: certificateKey }, (request, response) => {
    response.end(request.url)
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const ca = join(t.testdir({ 'ca.pem': certificate }), 'ca.pem')
  const { child, url, ended } = await record(
    t,
    `https://127.0.0.1:${(server.address() as AddressInfo).port}/prefix`,
    `export NODE_EXTRA_CA_CERTS='${ca}';`
  )
  t.match(await sendRequest(url, '/v1/info'), { status: 200, body: '/prefix/v1/info' })
  child.kill('SIGINT')
  t.same(await ended, [0, null])
})

t.test('a recorder killed in the middle of a line leaves a file readable to its last whole line', async t => {
  const server = createServer((_request, response) => {
    response.end('x'.repeat(8_000_000))
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { child, url, file, ended } = await record(t, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const reading = (async () => {
    for (;;) await sendRequest(url, '/v1/long')
  })().catch(() => {})
  await until(() => readFileSync(file).length > 20_000_000, '20 MB are written')
  child.kill('SIGKILL')
  await ended
  await reading
  const { exchanges } = await readRecording(createReadStream(file))
  t.ok(exchanges.length >= 2)
  for (const { response: answer } of exchanges) t.equal(answer?.body?.length, 8_000_000)
})

t.test('a full file ends the recorder with a sentence and 1, and the file has only whole lines', async t => {
  // Ignores SIGXFSZ, which the system sends besides the error and which would end the process.
  const { url, file, output, ended } = await record(t, await sandboxOf(t), 'ulimit -f 256;', [
    '--import',
    'data:text/javascript,process.on("SIGXFSZ", () => {})'
  ])
  let nth = 0
  const reading = (async () => {
    for (;;) await sendRequest(url, `/v1/blocks/by_version/${14_300 + nth++}?with_transactions=true`)
  })().catch(() => {})
  t.same(await ended, [1, null])
  await reading
  t.match(output(), /report\.jsonl cannot be written: EFBIG: file too large, write\n/)
  t.match(
    output(),
    /\n\d+ requests? with (?:its|their) responses? in [^\n]*\n {2}left out: \d+, since the disk could not store (?:it|them)\n/
  )
  const { exchanges, isTorn } = await readRecording(createReadStream(file))
  t.ok(exchanges.length > 0)
  t.equal(isTorn, false)
})
