import t, { type Test } from 'tap'
import { adminUrlOf } from '../../src/cli/admin.js'
import { statusScreenOf } from '../../src/cli/status.js'
import { startStubUpstream } from '../support/stub-upstream.js'
import { varveAtSandbox } from '../support/varve.js'
import { runCommand, startCommand } from './command.js'

const token = 'the t0ken'
const read = '/v1/accounts/0x1/modules?ledger_version=500'

/** Starts a server that gives one response to every request. */
const adminLike = async (t: Test, status: number, body: string): Promise<string> =>
  new URL(
    (await startStubUpstream(t, (_request, response) => response.writeHead(status).end(body))).url
  ).host

t.test('varve status prints the state of a running varve on one screen', async t => {
  const { varve } = await varveAtSandbox(t)
  await varve.get(read)
  await varve.get(read)
  const { code, out, err } = await runCommand(t, ['status', '--admin', varve.adminUrl])
  t.same([code, err], [0, ''])
  t.match(out, /^varve \S+ on \S+: ready, (?:green|amber)\n/)
  t.match(out, /\n {2}version {3}[\d ]+ \(block [\d ]+\), oldest [\d ]+, updated \d+ s ago\n/)
  t.match(out, /\n {2}memory {4}\d entr\S+, .* of .* MB\n/)
  t.match(out, /\n {2}requests {2}2 in .*, 0 failed\n {2}hit rate {2}50 %\n/)
  t.match(out, /\n {2}upstream {2}state.*\n {2}node {6}up /)
  t.ok(out.split('\n').length < 24, 'one screen')
  t.match(await runCommand(t, ['status'], { VARVE_ADMIN: new URL(varve.adminUrl).host }), { code: 0 })
})

t.test('varve status --json prints /status.json', async t => {
  const { varve } = await varveAtSandbox(t)
  const { code, out } = await runCommand(t, ['status', '--json', '--admin', varve.adminUrl])
  t.equal(code, 0)
  t.equal(out.trim().split('\n').length, 1)
  t.match(JSON.parse(out), { ready: true, upstreams: [{ name: 'node', state: 'up' }] })
})

t.test('varve status --watch outlives a restart of varve, and ends with 0 on Ctrl-C', async t => {
  const { varve } = await varveAtSandbox(t)
  const watching = startCommand(t, ['status', '--watch', '--admin', varve.adminUrl], { isTerminal: true })
  // eslint-disable-next-line no-control-regex
  await watching.waitForOutput(/^\u001b\[2J\u001b\[Hvarve .* ready/)
  await varve.stop({ drainMs: 0 })
  await watching.waitForOutput(/no admin listener on http:\/\/127\.0\.0\.1:\d+: connection refused/)
  watching.signal('SIGINT')
  t.equal(await watching.code, 0)
})

t.test('varve status ends with 1 where varve is not ready or cannot be reached', async t => {
  const notReady = await adminLike(t, 200, '{"ready":false,"level":"red","draining":true,"degraded":["it is down"]}')
  const { code, out } = await runCommand(t, ['status', '--admin', notReady])
  t.equal(code, 1)
  t.match(out, 'not ready, draining, red\n  ! it is down\n')
  t.match(await runCommand(t, ['status', '--admin', await adminLike(t, 200, '<html>')]), {
    code: 1,
    err: 'varve: /status.json is no status of varve (HTTP 200)\n'
  })
  t.match(await runCommand(t, ['status', '--admin', await adminLike(t, 404, '{}')]), { code: 1, err: /HTTP 404/ })
  t.match(await runCommand(t, ['status', '--watch', '--admin', 'ftp://h']), { code: 2, err: /--admin expects/ })
})

t.test('the screen copes with the status of another release', async t => {
  t.equal(statusScreenOf({}).split('\n')[0], 'varve on this machine: not ready')
  t.match(
    statusScreenOf({
      ready: true,
      chain: { id: 4 },
      workers: [{}, {}],
      tiers: { disk: { entries: 3 }, redis: { state: 'down', reason: 'refused' } }
    }),
    /workers {2}2\n {2}chain {4}4, space \?\n {2}disk {5}3 entries, 0\.0 MB\n {2}redis {4}down, refused\n/
  )
})

t.test('the screen shows how the ledger is followed, and nothing where it is not', t => {
  const screen = (follow: object): string => statusScreenOf({ ready: true, follow })
  t.match(
    screen({ mode: 'on', state: 'following', version: '2894117198', lagSeconds: 0.114 }),
    /\n {2}following {2}on: following, at 2 894 117 198, lag 0\.1 s\n/
  )
  t.match(
    screen({ mode: 'on', state: 'stopped', reason: 'an audit found a wrong account' }),
    /\n {2}following {2}on: stopped, an audit found a wrong account\n/
  )
  t.notMatch(statusScreenOf({ ready: true }), /following/)
  t.end()
})

t.test('varve purge removes a read, an account or everything, with the token of the environment', async t => {
  const { varve } = await varveAtSandbox(t, {}, { admin: { listen: '127.0.0.1:0', token } })
  const environment = { VARVE_ADMIN_TOKEN: token }
  const admin = ['--admin', varve.adminUrl]
  const cacheStatus = async (): Promise<unknown> => (await varve.get(read)).headers['cache-status']
  await varve.get(read)
  t.match(await cacheStatus(), /hit/)
  for (const scope of [['get', `http://varve.example${read}`], ['GET', read], ['--account', '0x1'], ['--all']]) {
    t.same(await runCommand(t, ['purge', ...scope, ...admin], environment), { code: 0, out: 'purged\n', err: '' })
    t.match(await cacheStatus(), /miss/, scope.join(' '))
    t.match(await cacheStatus(), /hit/)
  }
  const table = [
    'POST',
    '/v1/tables/0x5eed/item?ledger_version=7',
    '--data',
    '{"key_type":"u64","value_type":"u64","key":"7"}'
  ]
  t.match(await runCommand(t, ['purge', ...table, ...admin], environment), {
    code: 0,
    out: 'purged: nothing of it was stored\n'
  })
  t.match(await runCommand(t, ['purge', 'GET', read, ...admin]), {
    code: 1,
    out: '',
    err: /^varve: not purged: expected the admin token.* \(HTTP 401\); set VARVE_ADMIN_TOKEN/
  })
  t.match(await runCommand(t, ['purge', 'GET', '/v1/nowhere', ...admin], environment), {
    code: 1,
    err: 'varve: not purged: `url` is not the URL of a cacheable read (HTTP 400)\n'
  })
})

t.test('varve purge ends with 1 while replicas wait for Redis, or where no varve responds', async t => {
  t.match(await runCommand(t, ['purge', '--all', '--admin', await adminLike(t, 202, '{}')]), {
    code: 1,
    err: 'varve: purged here; Redis, the disk or a worker has not confirmed yet, and gets it later\n'
  })
  t.match(await runCommand(t, ['purge', '--all', '--admin', await adminLike(t, 500, 'x')]), {
    code: 1,
    err: 'varve: not purged: the response is none of varve (HTTP 500)\n'
  })
})

t.test('varve purge rejects an incomplete or contradictory scope', async t => {
  for (const words of [[], ['GET'], ['GET', read, 'more']]) {
    t.match(await runCommand(t, ['purge', ...words]), { code: 2, err: /purge takes a METHOD and a URL, or --all/ })
  }
  for (const words of [['--all', 'GET', read], ['--account', '0x1', 'GET', read], ['--all', '--account', '0x1']]) {
    t.match(await runCommand(t, ['purge', ...words]), { code: 2, err: /purge takes --all or/ })
  }
})

t.test('an admin listener is named by URL or by HOST:PORT, without credentials or path', async t => {
  t.equal(adminUrlOf('[::1]:9464').href, 'http://[::1]:9464/')
  t.equal(adminUrlOf('https://varve.example').href, 'https://varve.example/')
  for (const text of ['', 'http://', 'http://u:p@h:1', 'http://h:1/status', 'http://h?x']) {
    t.throws(() => adminUrlOf(text), /--admin expects/, text)
  }
})
