import { type LookupAddress } from 'node:dns'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { startSandbox, type Sandbox } from '#sandbox'
import { startServing, type Varve } from '../../src/app/start-serving.js'
import { DnsDiscovery } from '../../src/app/dns-discovery.js'
import { type Config, configSchema } from '../../src/config/schema.js'
import { sendRequest } from '../support/client.js'
import { until } from '../support/until.js'

const hostname = 'nodes.example'
const now = (): number => performance.now()

/** Names in place of DNS. */
class Names {
  addresses: string[]
  lookUps = 0

  constructor (...addresses: string[]) {
    this.addresses = addresses
  }

  readonly resolve = async (name: string): Promise<LookupAddress[]> => {
    this.lookUps++
    if (name !== hostname || this.addresses.length === 0) {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
    }
    return this.addresses.map(address => ({ address, family: 4 }))
  }
}

/** Starts a node on each of two loopback addresses and one port. */
async function startNodes (t: Test): Promise<{ port: number, nodes: Sandbox[] }> {
  const first = await startSandbox({ blockMs: 0, prunedBlocks: 0, host: '127.0.0.1' })
  const port = Number(new URL(first.url).port)
  const nodes = [first, await startSandbox({ blockMs: 0, prunedBlocks: 0, host: '127.0.0.2', port })]
  t.teardown(async () => {
    for (const node of nodes) await node.close()
  })
  return { port, nodes }
}

function configOf (port: number, change: object = {}): Config {
  return configSchema.parse({
    listen: '127.0.0.1:0',
    admin: { listen: '127.0.0.1:0', token: 's3cret' },
    log: { level: 'silent' },
    head: { pollMs: 100 },
    hedge: { share: 0 },
    upstreams: [{ name: 'nodes', url: `http://${hostname}:${port}`, resolve: 'all' }],
    ...change
  })
}

async function start (t: Test, config: Config, names: Names): Promise<Varve> {
  const program = { file: join(import.meta.dirname, '../../dist/cli.js'), flags: [] }
  const options = { resolve: names.resolve, everyMs: 100 }
  const varve = await startServing({ config, isSandbox: false }, pino({ level: 'silent' }), program, undefined, options)
  t.teardown(async () => {
    await varve.stop({ drainMs: 0 })
  })
  return varve
}

/** Returns the upstreams that are up, as the status page lists them. */
async function upNames (varve: Varve): Promise<string> {
  const { upstreams } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
    upstreams: Array<{ name: string, state: string }>
  }
  return upstreams.filter(({ state }) => state === 'up').map(({ name }) => name).join()
}

async function untilUp (varve: Varve, expected: string): Promise<void> {
  await until(async () => await upNames(varve) === expected, `up: ${expected}`)
}

// Read of a version that no other test reads.
let version = 2000
const modules = (): string => `/v1/accounts/0x1/modules?limit=1&ledger_version=${version++}`

t.test('each address of a name is an upstream, with its own health, and DNS changes are followed', async t => {
  const { port, nodes } = await startNodes(t)
  const names = new Names('127.0.0.1', '127.0.0.2')
  const varve = await start(t, configOf(port), names)
  await untilUp(varve, 'nodes-1,nodes-2')
  const post = async (path: string): Promise<number> =>
    (await sendRequest(varve.adminUrl, path, { method: 'POST', headers: { authorization: 'Bearer s3cret' } })).status
  for (const [cordoned, at] of [['nodes-1', 1], ['nodes-2', 0]] as const) {
    t.equal(await post(`/upstreams/${cordoned}/cordon`), 200)
    nodes[at]?.requests.reset()
    t.match(await sendRequest(varve.url, modules()), { status: 200 })
    t.equal(nodes[at]?.requests.countFor('account_modules'), 1, `without ${cordoned} the other address serves`)
    t.equal(await post(`/upstreams/${cordoned}/uncordon`), 200)
  }
  names.addresses = ['127.0.0.2']
  await untilUp(varve, 'nodes-2')
  const before = nodes[0]?.requests.total
  for (let read = 0; read < 5; read++) t.match(await sendRequest(varve.url, modules()), { status: 200 })
  t.equal(nodes[0]?.requests.total, before, 'an address that left gets no request')
  names.addresses = []
  const lookUps = names.lookUps
  await until(() => names.lookUps > lookUps + 3, 'more look-ups fail')
  t.equal(await upNames(varve), 'nodes-2', 'a name that cannot be resolved keeps its addresses')
  names.addresses = ['127.0.0.2', '127.0.0.1']
  await untilUp(varve, 'nodes-1,nodes-2')
})

t.test('a name without an address at the start is one upstream, until it has some', async t => {
  const { port } = await startNodes(t)
  const names = new Names()
  const varve = await start(t, configOf(port), names)
  const { body } = await sendRequest(varve.adminUrl, '/status.json')
  t.match((JSON.parse(body) as { upstreams: object[] }).upstreams, [{ name: 'nodes-1', state: 'down' }])
  names.addresses = ['127.0.0.1', '127.0.0.2']
  await untilUp(varve, 'nodes-1,nodes-2')
})

t.test('a reload keeps following, and a reload without the name stops it', async t => {
  const { port, nodes } = await startNodes(t)
  const names = new Names('127.0.0.1')
  const varve = await start(t, configOf(port), names)
  await untilUp(varve, 'nodes-1')
  t.match(await varve.reload(configOf(port, { latest: { infoMs: 5 } })), {
    changed: ['latest.infoMs'],
    needsRestart: []
  })
  names.addresses = ['127.0.0.1', '127.0.0.2']
  await untilUp(varve, 'nodes-1,nodes-2')
  await varve.reload(configOf(port, { upstreams: [{ name: 'one', url: nodes[0]?.url }] }))
  await untilUp(varve, 'one')
  const before = names.lookUps
  await varve.reload(configOf(port, { upstreams: [{ name: 'two', url: nodes[1]?.url }] }))
  await untilUp(varve, 'two')
  t.equal(names.lookUps, before)
})

t.test('numbers of addresses outlive a rejected reload, and no reload without the name', async t => {
  const { port, nodes } = await startNodes(t)
  const names = new Names('127.0.0.1', '127.0.0.2')
  const varve = await start(t, configOf(port), names)
  await untilUp(varve, 'nodes-1,nodes-2')
  names.addresses = ['127.0.0.2']
  await untilUp(varve, 'nodes-2')
  const other = { name: 'other', url: nodes[0]?.url }
  const rejected = configOf(port, { upstreams: [other] })
  for (const upstream of rejected.upstreams) Object.assign(upstream, { caFile: '/nowhere' })
  await t.rejects(varve.reload(rejected), { code: 'ENOENT' })
  const { lookUps } = names
  await until(() => names.lookUps > lookUps + 3, 'the name is still looked up')
  t.equal(await upNames(varve), 'nodes-2')
  await varve.reload(configOf(port, { upstreams: [other] }))
  await untilUp(varve, 'other')
  await varve.reload(configOf(port))
  await untilUp(varve, 'nodes-1')
})

t.test('names of upstreams are bounded: an address takes the first free number, of at most 32', async t => {
  const names = new Names('10.0.0.1', '10.0.0.2', '10.0.0.3')
  const warnings: object[] = []
  const log = { warn: (fields: object) => warnings.push(fields), error: () => {} } as never
  const { expanded } = await new DnsDiscovery({ log, now, resolve: names.resolve }).expand(configOf(1))
  t.same(expanded.upstreams.map(({ name, resolve }) => `${name} ${resolve}`), [
    'nodes-1 10.0.0.1',
    'nodes-2 10.0.0.2',
    'nodes-3 10.0.0.3'
  ])
  t.same(warnings, [])
  const many = new Names(...Array.from({ length: 40 }, (_, at) => `10.0.1.${at}`))
  const bounded = await new DnsDiscovery({ log, now, resolve: many.resolve }).expand(configOf(1))
  t.equal(bounded.expanded.upstreams.length, 32)
  t.match(warnings, [{ upstream: 'nodes', maxAddresses: 32 }])
})

t.test('an address that a rotating name omits once or twice stays', async t => {
  let clock = 0
  const names = new Names('10.0.0.1', '10.0.0.2')
  const discovery = new DnsDiscovery({
    log: pino({ level: 'silent' }),
    now: () => clock,
    resolve: names.resolve
  })
  let last: Awaited<ReturnType<typeof discovery.expand>> | undefined
  const addresses = async (): Promise<string> => {
    clock += 15_000
    last = await discovery.expand(configOf(1), last?.slots)
    return last.expanded.upstreams.map(({ resolve }) => resolve).join()
  }
  t.equal(await addresses(), '10.0.0.1,10.0.0.2')
  names.addresses = ['10.0.0.2', '10.0.0.3']
  t.equal(await addresses(), '10.0.0.1,10.0.0.2,10.0.0.3')
  t.equal(await addresses(), '10.0.0.1,10.0.0.2,10.0.0.3')
  t.equal(await addresses(), '10.0.0.2,10.0.0.3', 'three times in a row')
  names.addresses = ['10.0.0.2', '10.0.0.3', '10.0.0.4']
  await addresses()
  await addresses()
  t.same(last?.expanded.upstreams.map(({ name, resolve }) => `${name} ${resolve}`), [
    'nodes-1 10.0.0.4',
    'nodes-2 10.0.0.2',
    'nodes-3 10.0.0.3'
  ])
})

t.test('resolve takes any, all or an address, with which a name may be listed again', async t => {
  const isValid = (...upstreams: object[]): boolean => configSchema.safeParse({ upstreams }).success
  const url = 'http://nodes.example'
  for (const resolve of ['any', 'all', '10.0.0.1', '::1']) t.ok(isValid({ url, resolve }), resolve)
  for (const resolve of ['first', '', 'nodes.example', '10.0.0']) t.notOk(isValid({ url, resolve }), resolve)
  t.ok(isValid({ url, resolve: '10.0.0.1' }, { url, resolve: '10.0.0.2' }))
  t.notOk(isValid({ url, resolve: '10.0.0.1' }, { url, resolve: '10.0.0.1' }))
  t.notOk(isValid({ url, resolve: 'all' }, { url }))
  const other = { url: 'http://other.example' }
  t.ok(
    isValid({ name: 'a', url, resolve: 'all' }, { ...other, name: 'a-b' }, { url: 'http://c.example', name: 'ab-1' })
  )
  t.notOk(isValid({ name: 'a', url, resolve: 'all' }, { ...other, name: 'a-1' }), 'the name of an address')
})
