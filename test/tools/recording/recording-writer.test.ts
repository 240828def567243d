import { open } from 'node:fs/promises'
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runCommand, startCommand } from '../../cli/command.js'
import { sendRequest } from '../../support/client.js'
import { startRecorder, startReplay } from '../../support/recorder-and-replay.js'
import { until } from '../../support/until.js'

const mega = 1024 * 1024

/** Starts a node whose responses have the length that their target names. */
async function startLongUpstream (t: Test): Promise<string> {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/plain' }).end(
      'x'.repeat(Number(/\d+$/.exec(String(request.url))?.[0]))
    )
  })
  await new Promise<void>(resolve => {
    server.listen(0, '127.0.0.1', resolve)
  })
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('a response over --max-body-mb passes whole but unrecorded; a request over it gets a 413', async t => {
  const recording = await startRecorder(t, await startLongUpstream(t), ['--max-body-mb', '1'])
  t.equal((await sendRequest(recording.url, '/v1/1500000')).body.length, 1_500_000)
  t.equal((await sendRequest(recording.url, `/v1/${mega}`)).body.length, mega)
  t.match(await sendRequest(recording.url, '/v1/view', { body: Buffer.alloc(mega + 1) }), {
    status: 413,
    body:
      /^\{"message":"the request body cannot be passed on: it is longer than 1048576 bytes","error_code":"web_framework_error","vm_error_code":null\}$/
  })
  t.equal(await recording.stop(), 0)
  t.match(recording.exchanges().map(({ response }) => response?.leftOut ?? response?.body?.length), [
    'it is longer than 1048576 bytes: 1500000',
    mega
  ])
  const replay = await startReplay(t, recording.file)
  t.match(await sendRequest(replay.url, '/v1/1500000'), {
    status: 404,
    body:
      /"varve replay cannot answer GET \/v1\/1500000: its response was left out of the recording: it is longer than 1048576 bytes: 1500000"/
  })
  t.equal((await sendRequest(replay.url, `/v1/${mega}`)).body.length, mega)
})

t.test('a file at --max-mb is written no further, and everything still passes', async t => {
  const recording = await startRecorder(t, await startLongUpstream(t), ['--max-mb', '1'])
  for (let nth = 0; nth < 4; nth++) t.equal((await sendRequest(recording.url, '/v1/400000')).body.length, 400_000)
  t.match(await sendRequest(recording.url, '/v1/1'), { status: 200 })
  t.equal(await recording.stop(), 0)
  t.equal(recording.exchanges().length, 2, 'nothing later is recorded either, so that the file has no holes')
  t.ok(statSync(recording.file).size <= mega)
  t.match(
    recording.command.out(),
    /\n3 requests with their responses in \d+ s, 80\d\.\d KB: .*report\.jsonl\n {2}left out: 3, since the file has reached its limit \(--max-mb 1\)\n$/
  )
})

t.test('the file is private to its owner, and an existing one is replaced only with --force', async t => {
  const file = join(t.testdir({ 'report.jsonl': 'mine' }), 'report.jsonl')
  chmodSync(file, 0o644)
  const flags = ['record', '--upstream', 'http://127.0.0.1:9', '--out', file, '--listen', '127.0.0.1:0']
  t.same(await runCommand(t, flags), {
    code: 2,
    out: '',
    err: `varve: ${file} exists already: choose another name, or --force to replace it; see varve record --help\n`
  })
  t.equal(readFileSync(file, 'utf8'), 'mine')
  const command = startCommand(t, [...flags, '--force'])
  await command.waitForOutput(/forwards to/)
  command.signal('SIGTERM')
  t.equal(await command.code, 0)
  t.match([statSync(file).mode & 0o777, readFileSync(file, 'utf8')], [
    0o600,
    /^\{"form":"varve-recording","version":2,"made":"20\d\d-[^"]*Z","by":"varve \d[^"]*"\}\n/
  ])
})

t.test('a file that cannot be created ends the command with an error before it listens', async t => {
  const folder = t.testdir({ file: '' })
  const record = async (file: string): ReturnType<typeof runCommand> =>
    await runCommand(t, [
      'record',
      '--upstream',
      'http://127.0.0.1:9',
      '--listen',
      '127.0.0.1:0',
      '--out',
      file
    ])
  t.match(await record(join(folder, 'none', 'a')), {
    code: 1,
    out: '',
    err: /^varve: .*\/none\/a cannot be written: ENOENT/
  })
  t.match(await record(folder), { code: 1, out: '', err: `varve: ${folder} is no file that could be written\n` })
})

/** Makes writes fail as on a full disk from write number `after` on, which writes a part of its line. */
async function fillDisk (t: Test, after: number): Promise<void> {
  const handle = await open('/dev/null')
  const prototype = Object.getPrototypeOf(handle) as {
    write: (...args: unknown[]) => Promise<unknown>,
    sync: () => Promise<unknown>
  }
  await handle.close()
  const write = prototype.write
  let written = 0
  t.intercept(prototype, 'write', {
    value: async function (this: unknown, ...args: unknown[]) {
      if (++written <= after) return await write.apply(this, args)
      await write.apply(this, [(args[0] as Buffer).subarray(0, 5), 0])
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', syscall: 'write' })
    }
  })
}

t.test('a full disk ends the command with an error and exit code 1; whole lines stay', async t => {
  const url = await startLongUpstream(t)
  const recording = await startRecorder(t, url)
  await until(() => readFileSync(recording.file, 'utf8').split('\n').length === 3, 'the index is written')
  const folder = recording.file
  await fillDisk(t, 1)
  t.match(await sendRequest(recording.url, '/v1/1'), { status: 200 })
  await until(() => recording.exchanges().length === 1, 'the exchange is recorded')
  t.match(await sendRequest(recording.url, '/v1/2'), { status: 200 }, 'the client is not affected')
  t.equal(await recording.command.code, 1)
  t.match(
    recording.command.err(),
    /^varve: .*report\.jsonl cannot be written: ENOSPC: no space left on device, write\n$/
  )
  t.match(
    recording.command.out(),
    /\n2 requests with their responses in \d+ s, [\d.]+ K?B: .*\n {2}left out: 1, since the disk could not store it\n$/
  )
  t.match(readFileSync(folder, 'utf8'), /"target":"\/v1\/1"[^\n]*\n$/)
})

t.test('an incomplete or invalid command line is rejected with exit code 2', async t => {
  const out = join(t.testdir(), 'a')
  const both = ['--upstream', 'http://127.0.0.1:9', '--out', out]
  const wrong: Array<[string[], RegExp]> = [
    [['record'], /^varve: record takes --upstream URL and --out FILE; see varve record --help\n$/],
    [['record', ...both, 'more'], /Unexpected argument/],
    [['record', ...both, '--listen', 'nowhere'], /^varve: --listen expects HOST:PORT, got nowhere;/],
    [['record', ...both, '--max-mb', '0'], /^varve: --max-mb expects a whole number from 1 to 100000, got 0;/],
    [['record', ...both, '--max-body-mb', '65'], /^varve: --max-body-mb expects a whole number from 1 to 64, got 65;/],
    [['replay'], /^varve: replay takes one file that varve record has written; see varve replay --help\n$/],
    [['replay', 'a', 'b'], /^varve: replay takes one file/],
    [['replay', 'a', '--listen', 'nowhere'], /^varve: --listen expects HOST:PORT, got nowhere;/]
  ]
  for (const [args, err] of wrong) t.match(await runCommand(t, args), { code: 2, out: '', err }, args.join(' '))
  t.notOk(existsSync(out))
  const taken = new URL(await startLongUpstream(t)).host
  t.match(await runCommand(t, ['record', ...both, '--listen', taken]), {
    code: 1,
    out: '',
    err: new RegExp(
      `^varve: cannot listen on ${taken} \\(--listen\\): .*EADDRINUSE.*; stop the process that listens there`
    )
  })
  t.notOk(existsSync(out), 'no file is left behind')
  writeFileSync(out, '{"form":"varve-recording","version":2,"made":"2026-11-22T10:00:00.000Z","by":"me"}\n')
  t.match(await runCommand(t, ['replay', out, '--listen', taken]), {
    code: 1,
    out: '',
    err: /^varve: cannot listen on/
  })
  t.match(await runCommand(t, ['replay', join(out, 'none')]), { code: 1, out: '', err: /none cannot be read: ENOTDIR/ })
})
