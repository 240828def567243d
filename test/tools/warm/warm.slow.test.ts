import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { runCommand, startCommand } from '../../cli/command.js'
import { tableItemLookup } from '../../support/client.js'
import { freePort } from '../../support/free-port.js'
import { respondOk, stamps, startStubUpstream } from '../../support/stub-upstream.js'
import { until } from '../../support/until.js'
import { varveAtSandbox } from '../../support/varve.js'

function fileWith (t: Test, text: string | Buffer, name = 'reads.txt'): string {
  const folder = mkdtempSync(join(tmpdir(), 'varve-warm-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

const ended = (out: string): Record<string, unknown> =>
  JSON.parse(out.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>

t.test('warm reads each block of a range once with its transactions, and a second run hits', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 400, startVersion: 0n })
  // Ranges from the middle of a block to the beginning of another.
  const begin =
    [...Array(50).keys()].map(at => 150 + at).find(height =>
      sandbox.ledger.block(height).lastVersion > sandbox.ledger.block(height).firstVersion + 1n
    ) ?? NaN
  const [from, to] = [sandbox.ledger.block(begin).firstVersion + 1n, sandbox.ledger.block(begin + 199).firstVersion]
  const range = ['warm', '--from', String(from), '--to', String(to), '--transactions', '--url', varve.url]
  const first = await runCommand(t, [...range, '--json'])
  t.match([first.code, first.err], [0, ''])
  t.match(ended(first.out), { event: 'end', blocks: 200, hits: 0, stored: 200, notStored: {}, failed: {}, share: 1 })
  const requestCount = sandbox.requests.countFor('block_by_version')
  for (const height of [0, 1, 50, 99, 100, 199].map(at => begin + at)) {
    t.match(
      (await varve.get(`/v1/blocks/by_version/${sandbox.ledger.block(height).lastVersion}?with_transactions=true`))
        .headers['cache-status'],
      'varve; hit; detail=memory',
      `block ${height}`
    )
  }
  t.equal(sandbox.requests.countFor('block_by_version'), requestCount)
  const again = await runCommand(t, range)
  t.match([again.code, again.err], [0, ''])
  t.match(again.out, /^200 blocks in \d+ s, [\d.]+ [KM]B: 200 were cached already, 0 are cached now\n$/)
})

t.test('warm reports pruned versions and the end of the chain with the command to continue', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 300, prunedBlocks: 50, startVersion: 0n })
  const { oldest, head } = sandbox.ledger
  const { code, out, err } = await runCommand(t, [
    'warm',
    '--from',
    '0',
    '--to',
    String(head.version + 500n),
    '--url',
    varve.url,
    '--concurrency',
    '2'
  ])
  t.equal(code, 1, 'some were skipped')
  t.match(out, /^250 blocks in /, 'the newest is read too, though not cached yet')
  t.match(out, / {2}not cacheable: \d newest_block\n {2}\d+ versions/)
  t.match(
    out,
    new RegExp(
      ` ${oldest.version} versions are below the upstreams' oldest version, ${oldest.version}; ` +
        `the head is version ${head.version}\n`
    )
  )
  t.match(
    err,
    `varve: not all was read; go on with\n  varve warm --from ${head.version + 1n} --to ${
      head.version + 500n
    } --url ${varve.url} --concurrency 2\n`
  )
  t.ok(sandbox.requests.countFor('block_by_version') < 260, `${sandbox.requests.countFor('block_by_version')} reads`)
})

t.test('Ctrl-C ends warm between two reads and prints the command that continues without a gap', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 400, startVersion: 0n })
  const [from, to] = [sandbox.ledger.block(150).firstVersion, sandbox.ledger.block(399).firstVersion - 1n]
  const command = startCommand(t, [
    'warm',
    '--from',
    String(from),
    '--to',
    String(to),
    '--url',
    varve.url,
    '--rate',
    '200',
    '--concurrency',
    '3'
  ], { isTerminal: true })
  await command.waitForOutput(/\] +\d+ %, \d+ blocks/)
  command.signal('SIGINT')
  t.equal(await command.code, 1)
  const [, ...args] = /go on with\n {2}varve (.+)\n$/.exec(command.err())?.[1]?.split(' ') ?? []
  t.match(args, ['--from', /^\d+$/, '--to', String(to), '--url', varve.url, '--concurrency', '3', '--rate', '200'])
  t.ok(BigInt(args[1] ?? 0) > from && BigInt(args[1] ?? 0) < to)
  t.equal((await runCommand(t, ['warm', ...args.slice(0, -2)])).code, 0)
  for (let height = 150; height < 399; height++) {
    t.match(
      (await varve.get(`/v1/blocks/by_version/${sandbox.ledger.block(height).firstVersion}`)).headers['cache-status'],
      /^varve; hit/,
      `block ${height}`
    )
  }
})

t.test('warm reads a huge block once, however many pieces it spans, even if it is not stored', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 600, startVersion: 0n })
  const large = [...Array(500).keys()].map(at => 100 + at).reduce(
    (best, height) => sizeOf(height) > sizeOf(best) ? height : best,
    100
  )
  function sizeOf (height: number): bigint {
    const { firstVersion, lastVersion } = sandbox.ledger.block(height)
    return lastVersion - firstVersion
  }
  t.ok(sizeOf(large) > 2000n)
  const range = [
    '--from',
    String(sandbox.ledger.block(large - 1).firstVersion),
    '--to',
    String(sandbox.ledger.block(large + 1).lastVersion)
  ]
  const { code, out } = await runCommand(t, ['warm', ...range, '--url', varve.url, '--concurrency', '1', '--json'])
  t.equal(code, 0)
  t.match(ended(out), { blocks: 3, stored: 3 })
  t.equal(sandbox.requests.countFor('block_by_version'), 3)
})

t.test('a rate limit holds for any concurrency', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 300, startVersion: 0n })
  const from = sandbox.ledger.block(150).firstVersion
  const { out } = await runCommand(t, [
    'warm',
    '--from',
    String(from),
    '--to',
    String(sandbox.ledger.block(199).lastVersion),
    '--url',
    varve.url,
    '--rate',
    '100',
    '--json'
  ])
  const { hits, stored, seconds } = ended(out) as { hits: number, stored: number, seconds: number }
  t.ok(seconds >= (hits + stored - 1) / 100, `${hits + stored} reads in ${seconds} s`)
})

t.test('warm fetches paths and JSON requests, skips what is not stored, and accounts for all lines', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const version = sandbox.ledger.head.version - 5n
  const [modules, key] = [`/v1/accounts/0xcafe/modules?ledger_version=${version}`, tableItemLookup('u64', '"7"')]
  const paths = fileWith(
    t,
    [
      '# what the wallet asks for',
      '',
      `${modules}&limit=1`,
      ` ${modules}&limit=2\r`,
      '/v1/info',
      '/v1/accounts/0xcafe/modules',
      '/elsewhere',
      '/v1/accounts/0XZ/modules',
      'what is this',
      `GET ${modules}`
    ].join('\n')
  )
  const requests = fileWith(
    t,
    [
      JSON.stringify({ method: 'GET', url: `https://node.example${modules}&limit=3` }),
      JSON.stringify({ url: `${modules}&limit=4`, accept: 'application/x-bcs' }),
      `{"method":"POST","url":"/v1/tables/0x5eed/item?ledger_version=${version}","body":${String(key.body)}}`,
      '{"method":"POST","url":"/v1/transactions","body":{}}',
      '{"broken'
    ].join('\n')
  )
  const { code, out, err } = await runCommand(t, ['warm', paths, requests, '--url', varve.url])
  t.equal(code, 1)
  t.equal(err, '')
  t.match(
    out,
    /^5 reads in .*: 0 were cached already, 5 are cached now\n {2}5 lines are not cacheable reads\n {2}3 lines are not requests: \S+reads\.txt:9, \S+reads\.txt:10, \S+reads\.txt:5\n$/
  )
  for (const limit of [1, 2, 3]) {
    t.match((await varve.get(`${modules}&limit=${limit}`)).headers['cache-status'], /^varve; hit/)
  }
  t.match(
    (await varve.get(`${modules}&limit=4`, { headers: { accept: 'application/x-bcs' } })).headers['cache-status'],
    /^varve; hit/
  )
  t.match(
    (await varve.get(`/v1/tables/0x5eed/item?ledger_version=${version}`, key)).headers['cache-status'],
    /^varve; hit/
  )
  t.equal((await varve.metric('varve_requests_total{endpoint="info",outcome="forwarded",status="200"}')) ?? 0, 0)
})

t.test('a file that fails midway ends warm with the command to continue; a pipe reads the same way', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const lines = Array.from(
    { length: 20 },
    (_, at) => `/v1/accounts/0xcafe/modules?ledger_version=${sandbox.ledger.head.version - BigInt(at)}\n`
  ).join('')
  const whole = await runCommand(t, ['warm', fileWith(t, lines), '--url', varve.url])
  t.match([whole.code, whole.err], [0, ''])
  t.match(whole.out, /^20 reads in /)
  const broken = fileWith(t, `${lines}${'x'.repeat(17 * 1024 * 1024)}`)
  t.match(await runCommand(t, ['warm', broken, '--url', varve.url]), {
    code: 1,
    err: new RegExp(
      `^varve: ${broken} cannot be read: line 21 is longer than 16777216 bytes\nvarve: not all was read; go on with\n  ` +
        `varve warm --skip \\d+ ${broken} --url `
    )
  })
  const piped = startCommand(t, ['warm', '-', '--skip', '1', '--url', varve.url], { input: lines })
  t.equal(await piped.code, 0)
  t.match(piped.out(), /^19 reads in .*: 19 were cached already, 0 are cached now\n/)
  const child = spawn(process.execPath, [
    join(import.meta.dirname, '../../../dist/cli.js'),
    'warm',
    '-',
    '--url',
    varve.url
  ], { env: {}, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  child.stdin.end(lines)
  t.match(await text(child.stdout), /^20 reads in .*: 20 were cached already, 0 are cached now\n/)
})

t.test('an idle pipe does not delay Ctrl-C, and input without lines is reported', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const child = spawn(process.execPath, [
    join(import.meta.dirname, '../../../dist/cli.js'),
    'warm',
    '-',
    '--url',
    varve.url
  ], { env: {}, stdio: ['pipe', 'ignore', 'pipe'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const ended = once(child, 'exit')
  child.stdin.write(`/v1/accounts/0xcafe/modules?ledger_version=${sandbox.ledger.head.version - 5n}\n`)
  await until(
    async () =>
      (await varve.metric('varve_requests_total{endpoint="account_modules",outcome="miss",status="200"}') ?? 0) === 1,
    'the miss is counted'
  )
  child.kill('SIGTERM')
  t.equal(await text(child.stderr), `varve: not all was read; go on with\n  varve warm --skip 1 - --url ${varve.url}\n`)
  t.same(await ended, [1, null])
  const long = startCommand(t, ['warm', '-', '--url', varve.url], { input: `/v1\n${'x'.repeat(17 * 1024 * 1024)}` })
  t.match([await long.code, long.err()], [
    1,
    /^varve: what is piped in cannot be read: line 2 is longer than 16777216 bytes\nvarve: not all was read; go on with\n {2}varve warm --skip 1 - --url/
  ])
  t.match(await runCommand(t, ['warm', '-', 'reads.txt', '-']), { code: 2, err: /^varve: warm takes - once/ })
})

t.test('Ctrl-C on a file prints the line to continue from, and done lines are skipped', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const { version } = sandbox.ledger.head
  const file = fileWith(
    t,
    Array.from({ length: 300 }, (_, at) => `/v1/accounts/0xcafe/modules?ledger_version=${version - BigInt(at)}`)
      .join('\n'),
    'my reads.txt'
  )
  const command = startCommand(t, ['warm', file, '--url', varve.url, '--rate', '200'], { isTerminal: true })
  // Expects a bar and the time left, estimated from the share of the file that is done.
  await command.waitForOutput(/\[#*\.*\] +\d+ %, [1-9]\d* reads, \d+\/s, .* left/)
  command.signal('SIGTERM')
  t.equal(await command.code, 1)
  const [, skip = ''] = new RegExp(`go on with\n {2}varve warm --skip (\\d+) '${file}' --url`).exec(command.err()) ?? []
  const { code, out } = await runCommand(t, ['warm', '--skip', skip, file, '--url', varve.url])
  t.equal(code, 0)
  t.match(out, new RegExp(`^${300 - Number(skip)} reads `))
  t.ok(Number(skip) > 0)
  for (let at = 0n; at < 300n; at++) {
    t.match(
      (await varve.get(`/v1/accounts/0xcafe/modules?ledger_version=${version - at}`)).headers['cache-status'],
      /^varve; hit/
    )
  }
})

t.test('Ctrl-C ends warm within seconds of a hanging read, or at once if repeated; it stays to do', async t => {
  const events = new EventTarget()
  const silent = await startStubUpstream(t, () => {
    events.dispatchEvent(new Event('request'))
  })
  const args = ['warm', '--from', '10', '--to', '19', '--url', silent.url, '--concurrency', '1']
  for (const signals of [1, 2]) {
    const requested = once(events, 'request')
    const command = startCommand(t, args)
    await requested
    const begunAt = performance.now()
    for (let sent = 0; sent < signals; sent++) command.signal('SIGINT')
    t.equal(await command.code, 1)
    t.ok(performance.now() - begunAt < (signals === 1 ? 10_000 : 2500), `${signals}: ${performance.now() - begunAt} ms`)
    t.match(
      command.err(),
      /^varve: not all was read; go on with\n {2}varve warm --from 10 --to 19 --url \S+ --concurrency 1\n$/
    )
  }
})

t.test('warm retries an overloaded varve after Retry-After, and gives up with a message', async t => {
  let rejections = 2
  const busy = await startStubUpstream(t, (_request, response) => {
    if (rejections-- > 0) {
      response.writeHead(rejections === 1 ? 429 : 503, { 'retry-after': '1' }).end('{"message":"not now"}')
    } else {
      respondOk(
        response,
        '{"block_height":"3","block_hash":"0x1","block_timestamp":"1","first_version":"10","last_version":"19","transactions":null}',
        { 'cache-status': 'varve; fwd=uri-miss; fwd-status=200; stored' }
      )
    }
  })
  const { code, out } = await runCommand(t, ['warm', '--from', '10', '--to', '19', '--url', busy.url, '--json'])
  t.equal(code, 0)
  t.match(ended(out), { blocks: 1, stored: 1, retries: 2 })
  t.ok(Number(ended(out)['seconds']) >= 2)
})

t.test('warm reports a missing varve, or a response that is no block, and ends', async t => {
  const odd = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '{"message":"hello"}')
  })
  t.match(await runCommand(t, ['warm', '--from', '10', '--to', '19', '--url', odd.url]), {
    code: 1,
    err:
      /version 10 cannot be read: the response is 200, \{"message":"hello"\}; this is not varve: check --url\nvarve: not all was read; go on with\n {2}varve warm --from 10 --to 19/
  })
  const plain = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '{"block_height":"3","first_version":"10","last_version":"19"}', stamps())
  })
  t.match(await runCommand(t, ['warm', '--from', '10', '--to', '19', '--url', plain.url]), {
    code: 0,
    out: /not cacheable: 1 no varve there/
  })
})

t.test('warm sends the client key from its environment', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n }, {
    clients: { required: true, keys: [{ name: 'warmer', key: 'a-key-of-sixteen-bytes', requestsPerSecond: null }] }
  })
  const range = [
    'warm',
    '--from',
    String(sandbox.ledger.oldest.version),
    '--to',
    String(sandbox.ledger.oldest.version),
    '--url',
    varve.url
  ]
  t.match(await runCommand(t, range), { code: 1, err: /the response is 401/ })
  t.match(await runCommand(t, range, { VARVE_CLIENT_KEY: 'a-key-of-sixteen-bytes' }), { code: 0 })
})

t.test('warm rejects a command line with anything unknown in one sentence', async t => {
  for (
    const [args, why] of [
      [[], /--from V and --to V, or files/],
      [['--from', '1'], /--from V and --to V/],
      [['--from', '2', '--to', '1'], /--from 2 is above --to 1/],
      [['--from', 'x', '--to', '1'], /--from expects a ledger version, got x/],
      [['--from', '1', '--to', '1', 'file'], /a range of blocks or files of reads, not both/],
      [['--from', '1', '--to', '1', '--skip', '3'], /--skip is of files of reads/],
      [['file', '--concurrency', '0'], /--concurrency expects a whole number from 1 to 256, got 0/],
      [['file', '--rate', 'fast'], /--rate expects a whole number/],
      [['file', '--skip', '-1'], /skip/],
      [['file', '--url', 'http://h/v1'], /--url expects the address of a running varve/],
      [['file', '--url', 'ftp://h'], /--url expects/],
      [['--wat'], /Unknown option '--wat'/]
    ] as const
  ) t.match(await runCommand(t, ['warm', ...args]), { code: 2, err: why }, args.join(' '))
  t.match(await runCommand(t, ['warm', '/nowhere/at-all']), {
    code: 2,
    err: /^varve: cannot read \/nowhere\/at-all: there is no such file \(ENOENT\)/
  })
  t.match(await runCommand(t, ['warm', '--help']), { code: 0, out: /varve warm --from V --to V/ })
})

t.test('warm reports an address without listener within seconds', async t => {
  const begunAt = performance.now()
  t.match(await runCommand(t, ['warm', '--from', '1', '--to', '2', '--url', `http://127.0.0.1:${await freePort()}`]), {
    code: 1,
    err: /cannot be reached: .*ECONNREFUSED.*or set --url/
  })
  t.ok(performance.now() - begunAt < 6000)
})
