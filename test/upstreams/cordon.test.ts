import t, { type Test } from 'tap'
import { type Config, configSchema } from '../../src/config/schema.js'
import { type Sandbox } from '#sandbox'
import { sendRequest } from '../support/client.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

interface Status {
  readonly degraded: string[]
  readonly upstreams: Array<{ readonly name: string, readonly version?: string, readonly cordoned: boolean }>
}

const token = 's3cret-token'
const free = { listen: '127.0.0.1:0', admin: { listen: '127.0.0.1:0', token } }

function upstreamsAt (a: Sandbox, b: Sandbox): Config['upstreams'] {
  return configSchema.parse({ upstreams: [{ name: 'a', url: a.url }, { name: 'b', url: b.url }] }).upstreams
}

/** Starts varve in front of two nodes, with an admin token, and waits until both windows are known. */
async function varveAtTwo (t: Test, a: Sandbox, b: Sandbox, change: object = {}): Promise<TestVarve> {
  const varve = await varveAt(t, a.url, {
    upstreams: upstreamsAt(a, b),
    admin: { listen: '127.0.0.1:0', token },
    hedge: { share: 0 },
    ...change
  })
  await until(
    async () => (await statusOf(varve)).upstreams.every(({ version }) => version !== undefined),
    'both upstreams are up'
  )
  return varve
}

async function statusOf (varve: TestVarve): Promise<Status> {
  return JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as Status
}

async function call (varve: TestVarve, name: string, action: 'cordon' | 'uncordon'): Promise<number> {
  const headers = { authorization: `Bearer ${token}` }
  return (await sendRequest(varve.adminUrl, `/upstreams/${name}/${action}`, { method: 'POST', headers })).status
}

async function readAll (varve: TestVarve, from: number): Promise<number[]> {
  return await Promise.all(
    Array.from(
      { length: 10 },
      async (_, at) => (await varve.get(`/v1/accounts/0x1/modules?ledger_version=${from + at}`)).status
    )
  )
}

t.test('a cordoned upstream gets no reads until it is uncordoned, and status and readiness name it', async t => {
  const [a, b] = [await startSandboxNode(t), await startSandboxNode(t)]
  const varve = await varveAtTwo(t, a, b)
  const countAt = (node: Sandbox): number => node.requests.countFor('account_modules')
  t.equal(await call(varve, 'a', 'cordon'), 200)
  t.same(new Set(await readAll(varve, 19_000)), new Set([200]))
  t.same([countAt(a), countAt(b)], [0, 10])
  t.match(await statusOf(varve), {
    degraded: ['a is cordoned: it gets no reads until an operator uncordons it'],
    upstreams: [{ name: 'a', cordoned: true }, { name: 'b', cordoned: false }]
  })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 200, body: /"level":"amber"/ })
  t.equal(await call(varve, 'b', 'cordon'), 200)
  t.match(new Set(await readAll(varve, 19_100)), new Set([503]), 'none is left')
  t.match(new Set(await readAll(varve, 19_000)), new Set([200]), 'hits are served')
  t.match(await statusOf(varve), {
    degraded: [/^serving cache only: \d+ % of requests fail$/, /^a is cord/, /^b is cord/]
  })
  t.match(await sendRequest(varve.adminUrl, '/readyz'), { status: 200, body: /"level":"red"/ })
  t.equal(await call(varve, 'a', 'uncordon'), 200)
  t.same(new Set(await readAll(varve, 19_200)), new Set([200]))
  t.equal(countAt(a), 10)
  t.match(varve.log.filter(({ msg }) => /cordoned/.test(String(msg))).map(({ upstream }) => upstream), ['a', 'b', 'a'])
})

t.test('a version that only a cordoned upstream has is 503, never 410', async t => {
  const [archive, pruned] = [
    await startSandboxNode(t, { prunedBlocks: 0 }),
    await startSandboxNode(t, { prunedBlocks: 900 })
  ]
  const varve = await varveAtTwo(t, archive, pruned)
  const read = async (version: number): Promise<number> =>
    (await varve.get(`/v1/accounts/0x1/modules?ledger_version=${version}`)).status
  t.equal(await read(600), 200)
  t.equal(await call(varve, 'a', 'cordon'), 200)
  t.equal(await read(601), 503)
  t.equal(await call(varve, 'a', 'uncordon'), 200)
  t.equal(await read(601), 200)
})

t.test('a reload keeps a cordon, and unknown names are 404', async t => {
  const [a, b] = [await startSandboxNode(t), await startSandboxNode(t)]
  const varve = await varveAtTwo(t, a, b)
  t.equal(await call(varve, 'a', 'cordon'), 200)
  t.equal(await call(varve, 'c', 'cordon'), 404)
  const { upstreams } = configSchema.parse({
    upstreams: [{ name: 'a', url: a.url, timeoutMs: 4000 }, { name: 'b', url: b.url }]
  })
  await varve.reload(configSchema.parse({ ...free, upstreams, audit: { share: 0 } }))
  t.match((await statusOf(varve)).upstreams, [{ name: 'a', cordoned: true }, { name: 'b', cordoned: false }])
  await readAll(varve, 19_000)
  t.equal(a.requests.countFor('account_modules'), 0)
})

t.test('every worker follows a cordon, also one that starts later', async t => {
  const [a, b] = [await startSandboxNode(t), await startSandboxNode(t)]
  const varve = await varveAtTwo(t, a, b, { workers: 2 })
  t.equal(await call(varve, 'a', 'cordon'), 200)
  t.same(new Set(await readAll(varve, 19_000)), new Set([200]))
  t.equal(a.requests.countFor('account_modules'), 0)
  await varve.reload(
    configSchema.parse({ ...free, upstreams: upstreamsAt(a, b), workers: 2, audit: { share: 0 } })
  )
  t.match((await statusOf(varve)).upstreams, [{ name: 'a', cordoned: true }, { name: 'b' }], 'new workers know it')
  t.same(new Set(await readAll(varve, 19_100)), new Set([200]))
  t.equal(a.requests.countFor('account_modules'), 0)
  t.equal(await call(varve, 'a', 'uncordon'), 200)
  t.match((await statusOf(varve)).upstreams, [{ name: 'a', cordoned: false }, { name: 'b' }])
})
