import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'
import { startSandboxNode } from '../support/replicas.js'
import { varveAt } from '../support/varve.js'
import { type Command, runCommand, startCommand } from '../cli/command.js'
import { together } from '../support/together.js'

// Stopping takes a second, since clients get time to disconnect, so these tests run concurrently.
t.jobs = 6
const free = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
const modules = '/v1/accounts/0x1/modules?limit=1&ledger_version=2000'

/** Starts a sandbox and returns its addresses. */
async function sandbox (
  t: Test,
  argv: readonly string[],
  environment: Record<string, string> = {}
): Promise<{ command: Command, url: string, adminUrl: string }> {
  const command = startCommand(t, [...argv, ...free], { environment })
  const [, url = '', adminUrl = ''] = await command.waitForOutput(
    /"url":"([^"]+)","adminUrl":"([^"]+)",(?:"workers":\d+,)?"msg":"listening"/
  )
  await until(async () => (await sendRequest(adminUrl, '/readyz')).status === 200, 'ready')
  return { command, url, adminUrl }
}

/** Reads the readiness, and how often it names the sandbox: on a busy machine it reports shed load beside that. */
async function readiness (adminUrl: string, target = '/readyz'): Promise<object> {
  const { status, body } = await sendRequest(adminUrl, target)
  const read = JSON.parse(body) as { degraded: string[] }
  return { status, ...read, sandboxes: read.degraded.filter(text => text === 'sandbox').length }
}

/** Returns the complete response to raw bytes that no HTTP client would send. */
async function rawResponse (url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  return await new Promise((resolve, reject) => {
    let received = ''
    const socket = connect(Number(port), hostname, () => {
      socket.write(text)
    })
    socket.on('data', bytes => {
      received += String(bytes)
    }).on('error', reject).on('end', () => {
      resolve(received)
    })
  })
}

t.test(
  'serve without upstreams ends with 2 before it listens, and names --upstream and --sandbox',
  together(),
  async t => {
    const file = join(t.testdir({ 'v.yaml': 'workers: 1\nupstreams: []\n' }), 'v.yaml')
    for (
      const [argv, environment] of [
        [[], {}],
        [['serve'], { VARVE_UPSTREAM: '' }],
        [['serve'], { VARVE_SANDBOX: '0' }],
        [['--config', file], {}]
      ] as const
    ) {
      const { code, out, err } = await runCommand(t, [...argv, ...free], environment)
      t.same([code, out], [2, ''])
      t.match(
        err,
        /^ {2}upstreams: expected the URL of a full node: give it with --upstream URL .*; for made-up data give --sandbox \(or VARVE_SANDBOX=1\)$/m
      )
    }
  }
)

t.test(
  '--sandbox or VARVE_SANDBOX=1 together with an upstream from any source is rejected',
  together(),
  async t => {
    const file = join(t.testdir({ 'v.yaml': 'upstreams: [{ url: "http://127.0.0.1:9" }]\n' }), 'v.yaml')
    const sources: Array<[string[], Record<string, string>, string]> = [
      [
        ['--sandbox', '--upstream', 'http://127.0.0.1:9'],
        {},
        'upstreams (from --upstream): expected none together with --sandbox'
      ],
      [
        ['--sandbox'],
        { VARVE_UPSTREAM: 'http://127.0.0.1:9' },
        'upstreams (from VARVE_UPSTREAM): expected none together with --sandbox'
      ],
      [['--sandbox', '--config', file], {}, 'upstreams: expected none together with --sandbox'],
      [['--config', file], { VARVE_SANDBOX: '1' }, 'upstreams: expected none together with VARVE_SANDBOX']
    ]
    for (const [argv, environment, source] of sources) {
      const { code, out, err } = await runCommand(t, ['serve', ...argv, ...free], environment)
      t.same([code, out], [2, ''])
      t.ok(err.includes(`\n  ${source}, which serves made-up data: remove the upstreams, or `), err)
    }
    t.match(await runCommand(t, ['check', file], { VARVE_SANDBOX: '1' }), {
      code: 2,
      out: '',
      err: 'expected none together with VARVE_SANDBOX'
    })
    t.match(await runCommand(t, ['serve', ...free], { VARVE_SANDBOX: 'yes' }), {
      code: 2,
      out: '',
      err: '\n  VARVE_SANDBOX: expected 1 or 0\n'
    })
  }
)

for (
  const [how, argv, environment] of [['--sandbox', ['--sandbox'], {}], ['VARVE_SANDBOX=1 and two workers', [
    '--workers',
    '2'
  ], { VARVE_SANDBOX: '1' }]] as const
) {
  t.test(`with ${how} every public response has X-Varve-Sandbox: true`, together(), async t => {
    const { url } = await sandbox(t, argv, environment)
    const origin = { origin: 'https://app.example' }
    const json = { 'content-type': 'application/json' }
    const responses: Array<[string, Promise<Awaited<ReturnType<typeof sendRequest>>>]> = [
      ['a miss', sendRequest(url, modules)],
      ['a page of another origin', sendRequest(url, modules, { headers: origin })],
      ['a HEAD', sendRequest(url, modules, { method: 'HEAD' })],
      ['a latest read', sendRequest(url, '/v1')],
      ['a read passed through', sendRequest(url, '/v1/spec.json')],
      ['a malformed value', sendRequest(url, `${modules}x`)],
      ['an unknown route', sendRequest(url, '/v2/nothing')],
      ['a method that no route has', sendRequest(url, modules, { method: 'DELETE' })],
      [
        'a preflight',
        sendRequest(url, modules, {
          method: 'OPTIONS',
          headers: {
            ...origin,
            'access-control-request-method': 'GET'
          }
        })
      ],
      [
        'a preflight that is rejected',
        sendRequest(url, modules, {
          method: 'OPTIONS',
          headers: {
            ...origin,
            'access-control-request-method': 'PUT'
          }
        })
      ],
      [
        'a body that is too long',
        sendRequest(url, '/v1/tables/0x5eed/item', {
          method: 'POST',
          headers: json,
          body: 'x'.repeat(2_000_000)
        })
      ],
      ['an upstream\'s own error', sendRequest(url, '/v1/accounts/0xdead/modules?ledger_version=2000')]
    ]
    for (const [what, response] of responses) t.match((await response).headers, { 'x-varve-sandbox': 'true' }, what)
    for (let nth = 0; nth < 6; nth++) {
      const got = await sendRequest(url, modules)
      t.match(got.headers, { 'x-varve-sandbox': 'true' }, String(got.headers['cache-status']))
      const { etag = '' } = got.headers
      t.match(await sendRequest(url, modules, { headers: { 'if-none-match': String(etag) } }), {
        status: 304,
        headers: { 'x-varve-sandbox': 'true' }
      })
    }
    for (
      const text of [
        'nothing of HTTP\r\n\r\n',
        'CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n',
        `GET / HTTP/1.1\r\nHost: h\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`
      ]
    ) {
      t.match(await rawResponse(url, text), /^HTTP\/1\.1 4\d\d [^]*\r\nX-Varve-Sandbox: true\r\n/, text.slice(0, 20))
    }
  })
}

t.test(
  'a sandbox is reported in log, /readyz, /status.json and a metric, and is ready',
  together(),
  async t => {
    const { command, adminUrl } = await sandbox(t, ['--sandbox'])
    t.match(command.log()[0], {
      level: 40,
      msg: 'sandbox: serving made-up data of the embedded node, requested by --sandbox or VARVE_SANDBOX'
    })
    t.match(await readiness(adminUrl), { status: 200, ready: true, level: 'amber', sandboxes: 1 })
    t.match(await readiness(adminUrl, '/status.json'), { sandboxes: 1, varve: { isSandbox: true } })
    t.match((await sendRequest(adminUrl, '/metrics')).body, /^varve_sandbox 1$/m)
  }
)

t.test('a sandbox with two workers is reported once in /readyz and in the metric', together(), async t => {
  const { adminUrl } = await sandbox(t, ['--sandbox', '--workers', '2'])
  t.match(await readiness(adminUrl), { sandboxes: 1 })
  t.match((await sendRequest(adminUrl, '/metrics')).body, /^varve_sandbox 1$/m)
})

t.test('with an upstream nothing reports a sandbox', together(), async t => {
  const remoteSandbox = await startSandboxNode(t, { prunedBlocks: 0 })
  const varve = await varveAt(t, remoteSandbox.url, { head: { pollMs: 1000 } })
  for (let nth = 0; nth < 3; nth++) t.equal((await varve.get(modules)).headers['x-varve-sandbox'], undefined)
  t.match(JSON.parse((await sendRequest(varve.adminUrl, '/readyz')).body), {
    ready: true,
    level: 'green',
    degraded: []
  })
  t.equal(await varve.metric('varve_sandbox'), 0)
})

t.test('after a restart on its disk tier a sandbox has one position, which is fresh', together(), async t => {
  const flags = ['--sandbox', '--disk', join(t.testdir(), 'cache')]
  const version = 'x-node-ledger-version'
  const head = async (url: string, target: string): Promise<number> =>
    Number((await sendRequest(url, target)).headers[version])
  const first = await sandbox(t, flags)
  const began = await head(first.url, '/v1')
  await sendRequest(first.url, modules)
  // The second sandbox must be behind for as long as the test takes.
  await until(async () => await head(first.url, '/v1') > began + 80, 'the ledger has grown')
  first.command.signal('SIGTERM')
  t.equal(await first.command.code, 0)
  const { url, adminUrl } = await sandbox(t, flags)
  await sendRequest(url, modules)
  const [before, hit, after] = [await head(url, '/v1'), await head(url, modules), await head(url, '/v1')]
  t.ok(hit >= before && hit <= after, `${before}, ${hit}, ${after}`)
  const { body } = await sendRequest(adminUrl, '/metrics')
  t.match(body, /^varve_ledger_position_age_seconds \d/m)
  t.match(body, /^varve_chain_resets_total 0$/m)
})
