import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { runCommand, startCommand } from './command.js'
import { tableItemLookup } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

const block = '{"block_height":"3","first_version":"10","last_version":"19"}'
const cli = join(import.meta.dirname, '../../dist/cli.js')

/** Returns paths of stored reads, one for each of the newest versions. */
const pathsFrom = (version: bigint, count: number): string[] =>
  Array.from({ length: count }, (_, at) => `/v1/accounts/0xcafe/modules?ledger_version=${version - BigInt(at)}`)

t.test('warm reads each block of a range once with its transactions, and a second run hits', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 400, startVersion: 0n })
  // From the middle of a block to the beginning of another.
  const begin =
    [...Array(50).keys()].map(at => 150 + at).find(height =>
      sandbox.ledger.block(height).lastVersion > sandbox.ledger.block(height).firstVersion + 1n
    ) ?? NaN
  const [from, to] = [sandbox.ledger.block(begin).firstVersion + 1n, sandbox.ledger.block(begin + 199).firstVersion]
  const range = ['warm', '--from', String(from), '--to', String(to), '--transactions', '--url', varve.url]
  const read = (): number => sandbox.requests.latest.filter(({ url }) => url.includes('with_transactions')).length
  t.match(await runCommand(t, range), {
    code: 0,
    err: '',
    out: /^200 reads in \d+ s\n {2}0 cached already\n {2}200 cached now\n {2}[\d.]+ [KM]B\n$/
  })
  t.equal(read(), 200)
  for (const height of [0, 1, 50, 99, 100, 199].map(at => begin + at)) {
    t.match(
      (await varve.get(`/v1/blocks/by_version/${sandbox.ledger.block(height).lastVersion}?with_transactions=true`))
        .headers['cache-status'],
      'varve; hit; detail=memory',
      `block ${height}`
    )
  }
  t.match(await runCommand(t, range), { code: 0, err: '', out: / 200 cached already\n {2}0 cached now\n/ })
  t.equal(read(), 200)
  const one = await runCommand(t, ['warm', '--from', String(to), '--to', String(to), '--url', varve.url])
  t.match(one.out, /^1 read in .*\n {2}0 cached already\n {2}1 cached now\n/)
})

t.test('warm of a range beyond the upstreams names their versions, and reads nothing', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 300, prunedBlocks: 50, startVersion: 0n })
  const { oldest, head } = sandbox.ledger
  const warm = async (from: bigint, to: bigint): Promise<Awaited<ReturnType<typeof runCommand>>> =>
    await runCommand(t, ['warm', '--from', `${from}`, '--to', `${to}`, '--url', varve.url, '--concurrency', '2'])
  for (const [from, to, why] of [[0n, head.version, '0.*410'], [oldest.version, head.version + 1n, '.*404']] as const) {
    const window = `the upstreams have versions ${oldest.version} to ${head.version}`
    t.match(await warm(from, to), {
      code: 1,
      out: /^0 reads /,
      err: new RegExp(`^varve: version ${why}.*; ${window}\nvarve: not all was read; .*\n.*--from ${from} --to ${to} `)
    })
  }
  t.match(await warm(oldest.version, head.version), {
    code: 0,
    out: /^250 reads in .*\n {2}[01] cached already\n {2}24\d cached now\n.*\n {2}not cached: \d newest_block\n$/,
    err: ''
  })
})

t.test('Ctrl-C ends warm between two reads and prints the command that continues without a gap', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 400, startVersion: 0n })
  const [from, to] = [sandbox.ledger.block(150).firstVersion, sandbox.ledger.block(399).firstVersion - 1n]
  const folder = t.testdir({ 'my reads.txt': pathsFrom(sandbox.ledger.head.version, 300).join('\n') })
  const file = join(folder, 'my reads.txt')
  for (
    const [args, rest] of [
      [['--from', `${from}`, '--to', `${to}`], new RegExp(`^--from \\d+ --to ${to} .*--rate 200$`)],
      [[file], /--rate 200 --skip [1-9]\d* '.*my reads\.txt'$/]
    ] as const
  ) {
    const flags = ['--url', varve.url, '--concurrency', '3', '--rate', '200']
    const command = startCommand(t, ['warm', ...args, ...flags], { isTerminal: true })
    await command.waitForOutput(/\[#*\.*\] +[1-9]\d* %, [1-9]\d* reads, .* left/)
    command.signal('SIGINT')
    t.equal(await command.code, 1)
    const resume = /go on with\n {2}varve warm (.+)\n$/.exec(command.err())?.[1] ?? ''
    t.match(resume, rest)
    const words = resume.replace(`'${file}'`, 'FILE').replace('--rate 200', '').split(/ +/).filter(Boolean)
    t.equal((await runCommand(t, ['warm', ...words.map(word => word === 'FILE' ? file : word)])).code, 0)
  }
  const heights = Array.from({ length: 249 }, (_, at) => `/v1/blocks/by_height/${150 + at}`)
  for (const path of [...heights, ...pathsFrom(sandbox.ledger.head.version, 300)]) {
    t.match((await varve.get(path)).headers['cache-status'], /^varve; hit/, path)
  }
})

t.test('a rate limit holds for any concurrency', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const folder = t.testdir({ reads: pathsFrom(sandbox.ledger.head.version, 50).join('\n') })
  const begunAt = performance.now()
  const { code, out } = await runCommand(t, ['warm', join(folder, 'reads'), '--url', varve.url, '--rate', '100'])
  t.match([code, out], [0, /^50 reads in /])
  t.ok(performance.now() - begunAt >= 490)
})

t.test('warm fetches paths and JSON requests, skips what is not stored, and accounts for all lines', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const version = sandbox.ledger.head.version - 5n
  const [modules, key] = [`/v1/accounts/0xcafe/modules?ledger_version=${version}`, tableItemLookup('u64', '"7"')]
  const file = join(
    t.testdir({
      'reads.txt': [
        '# what the wallet asks for',
        '',
        `${modules}&limit=1`,
        ` ${modules}&limit=2\r`,
        '/v1/info',
        '/v1/accounts/0xcafe/modules',
        '/elsewhere',
        '/v1/accounts/0XZ/modules',
        'what is this',
        `GET ${modules}`,
        JSON.stringify({ method: 'GET', url: `https://node.example${modules}&limit=3` }),
        JSON.stringify({ url: `${modules}&limit=4`, accept: 'application/x-bcs' }),
        `{"method":"POST","url":"/v1/tables/0x5eed/item?ledger_version=${version}","body":${String(key.body)}}`,
        '{"method":"POST","url":"/v1/transactions","body":{}}',
        JSON.stringify({ method: 'DELETE', url: `${modules}&limit=5` }),
        '{"broken',
        '[]'
      ].join('\n')
    }),
    'reads.txt'
  )
  t.match(await runCommand(t, ['warm', file, '--url', varve.url]), {
    code: 1,
    err: [9, 10, 16, 17].map(line => `varve: ${file}:${line} is no request\n`).join(''),
    out: /^5 reads in .*\n {2}0 cached already\n {2}5 cached now\n.*\n {2}not cached: 6 not cacheable, 4 no request\n$/
  })
  for (
    const [target, options] of [
      ...[1, 2, 3].map(limit => [`${modules}&limit=${limit}`, {}] as const),
      [`${modules}&limit=4`, { headers: { accept: 'application/x-bcs' } }],
      [`/v1/tables/0x5eed/item?ledger_version=${version}`, key]
    ] as const
  ) t.match((await varve.get(target, options)).headers['cache-status'], /^varve; hit/, target)
  t.equal((await varve.metric('varve_requests_total{endpoint="info",outcome="forwarded",status="200"}')) ?? 0, 0)
})

t.test('an input that fails midway ends warm with the command to continue, also of a pipe', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const lines = pathsFrom(sandbox.ledger.head.version, 20).map(path => `${path}\n`).join('')
  const broken = join(t.testdir({ reads: `${lines}${'x'.repeat(5 * 1024 * 1024)}` }), 'reads')
  t.match(await runCommand(t, ['warm', broken, '--url', varve.url]), {
    code: 1,
    err: new RegExp(
      `^varve: ${broken} cannot be read: a line is longer than 4194304 characters\nvarve: not all was read; go on ` +
        `with\n {2}varve warm --url ${varve.url} --skip \\d+ ${broken}\n$`
    )
  })
  const piped = startCommand(t, ['warm', '-', '--skip', '1', '--url', varve.url], { input: lines })
  t.equal(await piped.code, 0)
  t.match(piped.out(), /^19 reads in .*\n {2}19 cached already\n {2}0 cached now\n/)
})

t.test('an idle pipe does not delay Ctrl-C', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n })
  const child = spawn(process.execPath, [cli, 'warm', '-', '--url', varve.url], {
    env: {},
    stdio: ['pipe', 'ignore', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit')
  child.stdin.write(`${pathsFrom(sandbox.ledger.head.version - 5n, 1).join('')}\n`)
  await until(
    async () =>
      (await varve.metric('varve_requests_total{endpoint="account_modules",outcome="miss",status="200"}') ?? 0) === 1,
    'the miss is counted'
  )
  child.kill('SIGTERM')
  t.equal(await text(child.stderr), `varve: not all was read; go on with\n  varve warm --url ${varve.url} --skip 1 -\n`)
  t.same(await ended, [1, null])
})

t.test('Ctrl-C ends warm within seconds of a hanging read, or at once if repeated; it stays to do', async t => {
  const events = new EventTarget()
  const silent = await startStubUpstream(t, () => events.dispatchEvent(new Event('request')))
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

t.test('warm retries an overloaded varve after Retry-After', async t => {
  let rejections = 2
  const busy = await startStubUpstream(t, (request, response) => {
    t.equal(request.headers.priority, 'u=7', 'clients go first')
    if (rejections-- > 0) {
      response.writeHead(rejections === 1 ? 429 : 503, { 'retry-after': '1' }).end('{"message":"not now"}')
    } else respondOk(response, block, { 'cache-status': 'varve; fwd=uri-miss; fwd-status=200; stored' })
  })
  const begunAt = performance.now()
  const { code, out } = await runCommand(t, ['warm', '--from', '10', '--to', '19', '--url', busy.url])
  t.match([code, out], [0, /^1 read .*\n {2}0 cached already\n {2}1 cached now\n.*\n {2}retried: 2\n$/])
  t.ok(performance.now() - begunAt >= 2000)
})

t.test('warm says what is wrong with an address that is no varve, without its control characters', async t => {
  const odd = await startStubUpstream(t, ({ url = '' }, response) => {
    if (url.includes('/10')) response.writeHead(404).end('\x1b[2J\x07<h1>\r\nnothing here')
    else if (url.includes('/11')) response.writeHead(302, { location: '/login' }).end()
    else if (url.includes('/12')) respondOk(response, '{"message":"hello"}')
    else respondOk(response, block, stamps())
  })
  for (
    const [version, why] of [
      ['10', '404,  [2J <h1> nothing here; this is not varve: check --url'],
      ['11', '302, with nothing in it; this is not varve: check --url'],
      ['12', '200, {"message":"hello"}; this is not varve: check --url']
    ] as const
  ) {
    const { code, err } = await runCommand(t, ['warm', '--from', version, '--to', '19', '--url', odd.url])
    t.equal(code, 1)
    t.equal(
      err,
      `varve: version ${version} cannot be read: the response is ${why}\nvarve: not all was read; go on with\n` +
        `  varve warm --from ${version} --to 19 --url ${odd.url}\n`
    )
  }
  t.match(await runCommand(t, ['warm', '--from', '13', '--to', '19', '--url', odd.url]), {
    code: 0,
    out: /not cached: 1 no varve there/
  })
  const begunAt = performance.now()
  t.match(await runCommand(t, ['warm', '--from', '1', '--to', '2', '--url', `http://127.0.0.1:${await freePort()}`]), {
    code: 1,
    err: /cannot be reached: .*ECONNREFUSED.*or set --url/
  })
  t.ok(performance.now() - begunAt < 6000, 'an address without listener is reported at once')
})

t.test('warm sends the client key from its environment', async t => {
  const key = 'a-key-of-sixteen-bytes'
  const { sandbox, varve } = await varveAtSandbox(t, { startVersion: 0n }, {
    clients: { required: true, keys: [{ name: 'warmer', key, requestsPerSecond: null }] }
  })
  const version = String(sandbox.ledger.oldest.version)
  const range = ['warm', '--from', version, '--to', version, '--url', varve.url]
  t.match(await runCommand(t, range), { code: 1, err: /the response is 401/ })
  t.match(await runCommand(t, range, { VARVE_CLIENT_KEY: key }), { code: 0 })
})

t.test('a mistake in the command line is named with exit code 2, before anything is fetched', async t => {
  const folder = t.testdir({ reads: '' })
  const file = join(folder, 'reads')
  for (
    const [args, why] of [
      [[], /--from V and --to V, or a file/],
      [['--from', '1'], /--from V and --to V/],
      [['--from', '2', '--to', '1'], /--from 2 is above --to 1/],
      [['--from', 'x', '--to', '1'], /--from expects a ledger version, got x/],
      [['--from', '1', '--to', '1', file], /a range of blocks or a file of reads, not both/],
      [['--from', '1', '--to', '1', '--skip', '3'], /--skip is of a file of reads/],
      [[file, file], /warm takes one file; cat joins several/],
      [[file, '--concurrency', '0'], /--concurrency expects a whole number from 1 to 256, got 0/],
      [[file, '--rate', 'fast'], /--rate expects a whole number/],
      [[file, '--skip', '-1'], /skip/],
      [[file, '--url', 'http://h/v1'], /--url expects the address of a running varve/],
      [[file, '--url', 'ftp://h'], /--url expects/],
      [['--wat'], /Unknown option '--wat'/],
      [[join(folder, 'none')], new RegExp(`^varve: cannot read ${folder}/none: ENOENT`)],
      [[folder], new RegExp(`^varve: cannot read ${folder}: it is a folder`)]
    ] as const
  ) t.match(await runCommand(t, ['warm', ...args]), { code: 2, err: why }, args.join(' '))
  t.match(await runCommand(t, ['warm', '--help']), { code: 0, out: /varve warm --from V --to V/ })
})
