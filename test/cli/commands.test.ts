import { execFile, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { type Environment } from '../../src/config/load.js'
import { configSchema } from '../../src/config/schema.js'
import { startSandbox } from '#sandbox'
import { certificate, certificateKey, renewedKey } from '../support/certificate.js'
import { sendRequest } from '../support/client.js'
import { listening, startEmptyUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { runCommand, startCommand } from './command.js'
import { together } from '../support/together.js'

// Stopping takes a second, since clients get time to disconnect, so these tests run concurrently.
t.jobs = 8
const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']

/** Returns an address that stays in use during the test. */
const takenAddress = async (t: Test): Promise<string> => new URL((await startEmptyUpstream(t)).url).host

t.test(
  'the three curls of the sandbox banner give a miss, a hit, and a hit by a request variant',
  together(),
  async t => {
    const varve = startCommand(t, ['--sandbox', ...free])
    const [, url = '', adminUrl = ''] = await varve.waitForOutput(/ reads {3}(\S+)\/v1\n {2}admin {3}(\S+)\/metrics/)
    t.match(
      varve.out(),
      / node {4}sandbox, the embedded node: made-up data \(--upstream URL for a real one\)\n/
    )
    const logged = (msg: string): object | undefined => varve.log().find(line => line['msg'] === msg)
    await until(() => logged('upstream is up') !== undefined, 'its upstream is up')
    t.match(varve.log()[0], {
      level: 40,
      msg: /^sandbox: serving made-up data of the embedded node, requested by --sandbox or VARVE_SANDBOX$/,
      url: /^http:\/\/127\.0\.0\.1:\d+$/
    })
    t.match([logged('listening'), logged('upstream is up')], [{ url, adminUrl }, { upstream: 'sandbox' }])
    const curls = [...varve.out().matchAll(/curl -si "(\S+?)(\/v1\S+)"/g)]
    t.equal(curls.length, 3)
    const statuses: unknown[] = []
    for (const [, base = '', target = ''] of curls) {
      statuses.push((await sendRequest(base, target)).headers['cache-status'])
    }
    t.match(statuses, [/fwd=uri-miss.*stored$/, 'varve; hit; detail=memory', 'varve; hit; detail=memory'])
    t.match(await sendRequest(adminUrl, '/readyz'), { status: 200 })
    varve.signal('SIGTERM')
    t.equal(await varve.code, 0)
    t.match([logged('stopping'), varve.log().at(-1)], [{ signal: 'SIGTERM' }, { msg: 'stopped' }])
    t.equal(varve.err(), '')
    await t.rejects(sendRequest(url, '/v1/info'), { code: 'ECONNREFUSED' })
    await t.rejects(sendRequest(adminUrl, '/healthz'), { code: 'ECONNREFUSED' })
    await t.rejects(
      sendRequest(String(varve.log()[0]?.['url']), '/v1'),
      { code: 'ECONNREFUSED' },
      'the embedded node ends with it'
    )
  }
)

t.test('SIGHUP stops varve after its terminal has closed, instead of a reload', together(), async t => {
  const stub = await startEmptyUpstream(t)
  const varve = startCommand(t, ['--upstream', stub.url, ...free], {
    environment: { NO_COLOR: '1' },
    isTerminal: true,
    hasLostTerminal: true
  })
  await varve.waitForOutput(/upstream is up/)
  varve.signal('SIGHUP')
  t.equal(await varve.code, 0)
  t.match(varve.out(), / info {2}stopping signal=SIGHUP\n.* info {2}stopped\n$/)
})

t.test('varve stops on SIGINT, logs only JSON without a terminal, and logs its addresses', together(), async t => {
  const stub = await startEmptyUpstream(t)
  const config = join(
    t.testdir({
      'v.yaml': 'listen: 127.0.0.1:0\nadmin: { listen: "127.0.0.1:0", token: s3cret }\ntrustProxy: ' +
        `[10.0.0.1]\nupstreams: [{ name: mine, url: "${stub.url}/s3cret", headers: { x: s3cret } }]\n`
    }),
    'v.yaml'
  )
  const varve = startCommand(t, ['serve', '--config', config, '--redis', 'redis://:s3cret@127.0.0.1:1'])
  await varve.waitForOutput(/upstream is up/)
  const [listening] = varve.log()
  t.match(listening, {
    level: 30,
    msg: 'listening',
    url: /^http:\/\/127\.0\.0\.1:[1-9]\d*$/,
    adminUrl: /^http:\/\/127\.0\.0\.1:[1-9]\d*$/
  })
  t.match(await sendRequest(String(listening?.['url']), '/v2/nowhere'), { status: 404 })
  varve.signal('SIGINT')
  t.equal(await varve.code, 0)
  t.equal(varve.out().trim().split('\n').length, varve.log().length, 'no banner without a terminal')
  t.match(varve.log().find(({ msg }) => msg === 'stopping'), { signal: 'SIGINT' })
  t.notMatch(varve.out() + varve.err(), /s3cret/)
})

t.test('a terminal gets readable log lines in colours, and a banner without secrets of URLs', together(), async t => {
  const varve = startCommand(t, [
    'serve',
    ...free,
    '--upstream',
    'http://127.0.0.1:9/s3cret'
  ], {
    isTerminal: true
  })
  await varve.waitForOutput(/ node {4}http:\/\/127\.0\.0\.1:9\/\*\*\*\n/)
  t.match(varve.out(), /memory {2}256 MB/)
  await varve.waitForOutput(/no upstream has responded yet/)
  varve.signal('SIGTERM')
  t.equal(await varve.code, 0)
  t.match(varve.out(), '\u001b[33mwarn \u001b[0m no upstream has responded yet')
  t.notMatch(varve.out(), /s3cret|sandbox/)
  t.same(varve.log(), [], 'no line is JSON')
})

t.test('the banner names Redis as URL, cluster or sentinel set, without credentials', together(), async t => {
  const cases: [string, string][] = [
    ['url: "redis://s3cret:s3cret@127.0.0.1:1/2"', 'redis://***:***@127.0.0.1:1/2'],
    ['cluster: ["127.0.0.1:1", "127.0.0.1:2"], password: s3cret', 'a cluster (127.0.0.1:1, 127.0.0.1:2)'],
    ['sentinel: { name: main, hosts: ["127.0.0.1:1"], password: s3cret }', 'main (through its sentinels)'],
    ['keyPrefix: other', 'none: cached responses are not shared']
  ]
  const dir = t.testdir(
    Object.fromEntries(cases.map(([redis], at) => [`${at}.yaml`, `cache: { redis: { ${redis} } }`]))
  )
  await Promise.all(cases.map(async ([, expected], at) => {
    const varve = startCommand(t, ['--config', join(dir, `${at}.yaml`), ...free, '--upstream', 'http://127.0.0.1:9'], {
      isTerminal: true
    })
    const [, printed] = await varve.waitForOutput(/\n {2}redis {3}(.*)\n/)
    t.equal(printed, expected)
    varve.signal('SIGTERM')
    t.equal(await varve.code, 0)
    t.notMatch(varve.out() + varve.err(), /s3cret/)
  }))
})

t.test('an address in use ends varve with 1 and an error with the address, its key and a fix', together(), async t => {
  const taken = await takenAddress(t)
  let contacts = 0
  const url = await listening(t, createServer(() => contacts++))
  const quiet = ['--upstream', url, '--redis', url.replace('http', 'redis'), '--log-level', 'silent']
  for (
    const [argv, key, flag] of [
      [['serve', '--listen', taken, '--admin', '127.0.0.1:0', ...quiet], 'listen', '--listen'],
      [['--listen', '127.0.0.1:0', '--admin', taken, ...quiet], 'admin.listen', '--admin'],
      [['sandbox', '--listen', taken], '--listen', '--listen']
    ] as const
  ) {
    t.same(await runCommand(t, argv), {
      code: 1,
      out: '',
      err: `varve: cannot listen on ${taken} (${key}): listen EADDRINUSE: address already in use ${taken}; stop the ` +
        `process that listens there, or choose another address with ${flag} (port 0 picks a free port)\n`
    })
  }
  t.equal(contacts, 0, 'neither an upstream nor Redis')
})

t.test('check prints the effective settings as a valid configuration with masked secrets', together(), async t => {
  const text = `
listen: 127.0.0.1:0
admin: { token: s3cret }
upstreams: [{ name: a, url: https://h/s3cret, headers: { authorization: Bearer s3cret } }]
clients: { keys: [{ name: shop, key: s3cret }] }
latest: { promote: false }
audit: { share: 0 }
cache: { redis: { url: "redis://s3cret:s3cret@h:1/2", password: s3cret } }
`
  const dir = t.testdir({ 'v.yaml': text })
  const environment = { VARVE_WORKERS: '4', VARVE_LOG_LEVEL: 'warn', VARVE_CONFIG: 'not this one' }
  const { code, out, err } = await runCommand(t, ['check', join(dir, 'v.yaml')], environment)
  t.same([code, err], [0, ''])
  t.notMatch(out, /s3cret/)
  t.match(parse(out), {
    listen: '127.0.0.1:0',
    workers: 4,
    log: { level: 'warn' },
    latest: { promote: false },
    limits: { bodyKb: 1024 },
    admin: { listen: '127.0.0.1:9464', token: '***' },
    upstreams: [{ name: 'a', url: 'https://h/***', headers: { authorization: '***' }, timeoutMs: 5000 }],
    clients: { keys: [{ name: 'shop', key: '***' }] },
    cache: { redis: { url: 'redis://***:***@h:1/2', password: '***', sentinel: { password: null } } }
  })
  t.strictSame(configSchema.parse(parse(out)), parse(out), 'every key is there and valid')
  t.notMatch(out, /no effect/)
  const again = t.testdir({ 'again.yaml': out })
  t.match(await runCommand(t, ['check', join(again, 'again.yaml')]), { code: 0, err: '' })
})

t.test('an invalid command line ends with 2 and an error that names the wrong argument', together(), async t => {
  const cases: [string[], string][] = [
    [['--colour'], 'Unknown option \'--colour\'; see varve serve --help'],
    [['serve', '--colour=red'], 'Unknown option \'--colour\'; see varve serve --help'],
    [['serve', '-x'], 'Unknown option \'-x\'; see varve serve --help'],
    [['serve', 'redis://:s3cret@h'], 'Unexpected argument; see varve serve --help'],
    [['serve', 'it\'s s3cret'], 'Unexpected argument; see varve serve --help'],
    [['--redis://:s3cret@h'], 'Unknown option; see varve serve --help'],
    [['redis://:s3cret@h'], 'unknown command; see varve --help'],
    [['--listen', 'h:1', 'stray'], 'Unexpected argument \'stray\'; see varve serve --help'],
    [['--listen'], 'Option \'--listen <value>\' argument missing; see varve serve --help'],
    [['--listen', '--admin', 'h:1'], 'Option \'--listen\' argument is ambiguous; see varve serve --help'],
    [['sandbox', '--seed'], 'Option \'--seed <value>\' argument missing; see varve sandbox --help'],
    [['sandbox', '--upstream', 'http://h'], 'Unknown option \'--upstream\'; see varve sandbox --help'],
    [['sandbox', 'stray'], 'Unexpected argument \'stray\'; see varve sandbox --help'],
    [['check', 'a.yaml', 'b.yaml', 'c.yaml'], 'check takes one file, not 3; see varve check --help'],
    [['check', '--config', 'a.yaml', 'b.yaml'], 'check takes one file, not 2; see varve check --help'],
    [['help', 'explode'], 'unknown command explode; see varve --help'],
    [['help', 'warm', 'check'], 'help takes one command; see varve --help'],
    [
      ['warm', '--rate', '-1', '--from', '1', '--to', '2'],
      '--rate expects a whole number from 1 to 1000000, got -1; see varve warm --help'
    ],
    [['warm', '--from', '-5', '--to', '2'], '--from expects a ledger version, got -5; see varve warm --help'],
    ...[
      ['listen', '8081', 'HOST:PORT'],
      ['listen', '127.0.0.1:65536', 'HOST:PORT'],
      ['chain-id', '256', 'a whole number from 0 to 255'],
      ['blocks', '1000001', 'a whole number from 0 to 1000000'],
      ['family', 'x y', 'letters, digits and -'],
      ...['many', '-1', '1.5', '', '0x1'].map(text => ['chain-id', text, 'a whole number from 0 to 255'])
    ].map(([flag, text, expected]): [string[], string] => [
      ['sandbox', `--${flag}=${text}`],
      `--${flag} expects ${expected}, got ${text}; see varve sandbox --help`
    ])
  ]
  for (const [argv, sentence] of cases) {
    t.same(
      await runCommand(t, argv),
      { code: 2, out: '', err: `varve: ${sentence}\n` },
      argv.join(' ')
    )
  }
})

t.test('varve check takes its file with --config too, and prints the same mistakes', together(), async t => {
  const dir = t.testdir({ 'good.yaml': 'workers: 2\nupstreams: [{ url: "http://h" }]', 'bad.yaml': 'workers: many' })
  for (const [name, code] of [['good.yaml', 0], ['bad.yaml', 2]] as const) {
    const given = await runCommand(t, ['check', '--config', join(dir, name)])
    t.equal(given.code, code)
    t.same(given, await runCommand(t, ['check', join(dir, name)]))
    t.same(given, await runCommand(t, ['check', `--config=${join(dir, name)}`]))
  }
})

t.test('with an upstream, the banner\'s curls read the newest version, which every node has', together(), async t => {
  const upstream = await startSandbox({ blocks: 300, prunedBlocks: 290 })
  t.teardown(async () => await upstream.close())
  const varve = startCommand(t, [...free, '--upstream', upstream.url], { isTerminal: true })
  const [commands] = await varve.waitForOutput(/( {4}V=.*\n)( {4}curl .*\n){3}/)
  const result = await promisify(execFile)('sh', ['-c', commands])
  t.same(result.stdout.match(/cache-status: .*?(?=\r)/g), [
    'cache-status: varve; fwd=uri-miss; fwd-status=200; stored',
    'cache-status: varve; hit; detail=memory',
    'cache-status: varve; hit; detail=memory'
  ])
})

t.test('the log says that no upstream responds at the start, and what to check', together(), async t => {
  const varve = startCommand(t, [...free, '--upstream', 'http://127.0.0.1:9'])
  await varve.waitForOutput(/no upstream has responded yet/)
  t.match(varve.log().slice(1), [{ level: 40, upstream: 'node-1', reason: 'connection refused' }, {
    level: 40,
    msg: /check each url of upstreams/
  }])
})

t.test('the embedded node runs alone, applies its flags, and stops on either signal', together(), async t => {
  const flags = ['--seed', '7', '--blocks', '20', '--block-ms', '0', '--chain-id', '9', '--family', 'X-My-']
  const upstreams = [
    startCommand(t, ['sandbox', '--listen', '127.0.0.1:0', ...flags]),
    startCommand(t, ['sandbox', '--listen', '127.0.0.1:0', ...flags])
  ] as const
  const bodies: string[] = []
  for (const upstream of upstreams) {
    const [, url = ''] = await upstream.waitForOutput(/a made-up node on (\S+)\n {2}curl -i \S+\/v1\n/)
    const got = await sendRequest(url, '/v1')
    t.match(got, { status: 200, headers: { 'x-my-chain-id': '9', 'x-my-block-height': '19' } })
    bodies.push(got.body)
  }
  t.equal(bodies[0], bodies[1], 'equal seeds make equal ledgers')
  upstreams[0].signal('SIGTERM')
  upstreams[1].signal('SIGINT')
  t.same(await Promise.all(upstreams.map(async ({ code }) => await code)), [0, 0])
})

/** Runs a program in its own process; a compiled one gets no environment but the given. */
async function program (
  t: Test,
  file: string,
  args: readonly string[],
  saw?: (text: string) => NodeJS.Signals | undefined,
  environment: Environment = {}
): Promise<{ code: number | null, out: string, err: string }> {
  const child = spawn(process.execPath, [...file.endsWith('.ts') ? process.execArgv : [], file, ...args], {
    env: file.endsWith('.ts') ? process.env : environment,
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stderr.on('data', text => {
    err += String(text)
  })
  child.stdout.on('data', text => {
    out += String(text)
    const signal = saw?.(out)
    if (signal !== undefined) child.kill(signal)
  })
  return await new Promise(resolve => child.on('close', code => resolve({ code, out, err })))
}

const compiled = join(import.meta.dirname, '../../dist/cli.js')

t.test('the compiled program checks, serves, and ends with 0 within 10 s of SIGTERM', together(), async t => {
  let printedAt = 0
  const [good, bad, served] = await Promise.all([
    program(t, compiled, ['check'], undefined, { VARVE_SANDBOX: '1' }),
    program(t, compiled, ['check', '--colour']),
    program(t, compiled, ['--sandbox', ...free], text => {
      if (printedAt > 0 || !text.includes('curl')) return
      printedAt = performance.now()
      return 'SIGTERM'
    })
  ])
  t.match(good, { code: 0, err: '' })
  t.strictSame(parse(good.out), configSchema.parse({}))
  t.match(bad, { code: 2, out: '', err: 'varve: Unknown option \'--colour\'; see varve check --help\n' })
  t.match(served, { code: 0, err: '', out: /"signal":"SIGTERM","msg":"stopping"/ })
  t.ok(performance.now() - printedAt < 10_000)
})

interface StartMistake {
  readonly file: string
  readonly mistakes: Record<string, string>
  readonly environment?: Environment
}

const rejected = parse(readFileSync('test/cases/start-mistakes.yaml', 'utf8')) as readonly StartMistake[]

t.test('check and serve reject the same configurations with the same mistakes and exit code 2', together(), async t => {
  const folder = t.testdir({
    'c.pem': certificate,
    'k.pem': certificateKey,
    'x.pem': 'no PEM',
    'other.pem': renewedKey,
    'locked.pem': '-----BEGIN ENCRYPTED PRIVATE KEY-----\n'
  })
  for (const [at, { file: text, mistakes, environment }] of rejected.entries()) {
    const file = join(folder, `${at}.yaml`)
    writeFileSync(file, text.replaceAll('FOLDER', folder))
    const given = { HOME: '/home/me', ...environment }
    const isServing = (out: string) => out.includes('"listening"') ? 'SIGTERM' : undefined
    const [checked, served] = await Promise.all([
      program(t, compiled, ['check', '--json', file], undefined, given),
      program(t, compiled, ['serve', '--config', file, '--admin', '127.0.0.1:0'], isServing, given)
    ])
    t.match({ checked: checked.code, served: served.code }, { checked: 2, served: 2 }, text)
    const found = (JSON.parse(checked.out) as { mistakes?: Array<Record<'key' | 'message', string>> }).mistakes ?? []
    t.match(found, Object.entries(mistakes).map(([key, message]) => ({ key, message: new RegExp(message) })), text)
    t.equal(found.length, Object.keys(mistakes).length, text)
    for (const { key, message } of found) t.ok(served.err.includes(`${key}: ${message}`), served.err)
    t.equal(served.err.split('\n').length, found.length + 2, 'serve has no other mistake')
  }
  for (const name of ['check', 'serve']) {
    t.match(await program(t, compiled, [name], undefined, { HOME: '/home/me', VARVE_CONFIG: '~/v.yaml' }), {
      code: 2,
      err: /expected an absolute path: varve does not expand ~/
    })
  }
})

t.test('a failed start ends the embedded node, so the process can end', together(), async t => {
  const { code, out, err } = await runCommand(t, ['--sandbox', ...free, '--listen', await takenAddress(t)])
  t.match({ code, err }, { code: 1, err: /^varve: .*EADDRINUSE.*\n$/ })
  await t.rejects(
    sendRequest(/"url":"(\S+?)"/.exec(out)?.[1] ?? '', '/v1'),
    { code: 'ECONNREFUSED' },
    'the embedded node has ended'
  )
})
