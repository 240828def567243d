import t from 'tap'
import { sendRequest } from '../support/client.js'
import { freePort } from '../support/free-port.js'
import { startSandboxNode } from '../support/replicas.js'
import { startRedis } from '../support/redis-server.js'
import { startInFrontOf } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'

const reads = [
  '/v1/accounts/0x1/modules?ledger_version=5000',
  '/v1/accounts/0x1/modules',
  '/v1/info',
  '/v1',
  '/v1/-/healthy'
]
const sentence = 'no upstream serves chain 1, which chainId expects: n1 serves chain 4, n2 serves chain 9'

t.test('varve names upstreams on another chain than chainId in every 503, in /readyz and the log', async t => {
  const upstreams = [await startSandboxNode(t), await startSandboxNode(t, { chainId: 9 })]
  const { get, varve } = await startInFrontOf(t, upstreams, { chainId: 1, admin: { token: 't0ken' } })
  // Twice, since a known request has a way of its own.
  for (const target of [...reads, ...reads]) {
    t.match(await get(target), { status: 503, body: new RegExp(`"message":"${sentence}"`) }, target)
  }
  const later = await varve.get(reads[0] ?? '', { headers: { 'x-varve-min-ledger-version': '7000' } })
  t.match(later, { status: 503, body: new RegExp(sentence) }, 'a read that waits for a version')
  const { status, body } = await sendRequest(varve.adminUrl, '/readyz')
  t.equal(status, 503)
  t.match(JSON.parse(body), {
    ready: false,
    degraded: [
      'clients get errors from varve: 100 % of requests fail',
      sentence,
      'n1 is quarantined: it serves chain 4, not 1',
      'n2 is quarantined: it serves chain 9, not 1'
    ]
  })
  t.notMatch(body, /reached/)
  t.match(varve.log.filter(({ reason }) => reason === sentence), [{
    level: 50,
    msg: /^no upstream serves the configured chain/
  }], 'once')
})

t.test('varve distinguishes a wrong chainId from upstreams that are down, with a shared Redis too', async t => {
  const redis = await startRedis(t)
  const upstream = await startSandboxNode(t)
  const upstreams = [{ name: 'away', url: `http://127.0.0.1:${await freePort()}` }, {
    name: 'here',
    url: upstream.url
  }] as never
  const { get, varve } = await startInFrontOf(t, [upstream], {
    chainId: 1,
    cache: { redis: { url: redis.url } },
    upstreams
  })
  t.match(await get(reads[0] ?? ''), {
    status: 503,
    body: /"no upstream serves chain 1, which chainId expects: here serves chain 4"/
  })
  const { body } = await sendRequest(varve.adminUrl, '/readyz')
  t.match(JSON.parse(body), {
    degraded: [
      'clients get errors from varve: 100 % of requests fail',
      'no upstream serves chain 1, which chainId expects: here serves chain 4',
      'away is down: connection refused',
      /^here is quarantined/
    ]
  })
  t.notMatch(JSON.stringify(varve.log), /no upstream has responded yet/)
})

t.test('varve responds once an upstream is on the configured chain, whatever the others are', async t => {
  const other = await startSandboxNode(t, { chainId: 9 })
  const right = await startSandboxNode(t)
  const fault = right.faults.add({ kind: 'otherChain', chainId: 9 })
  const { get, varve } = await startInFrontOf(t, [other, right], { chainId: 4 })
  t.match(await get(reads[0] ?? ''), {
    status: 503,
    body: /which chainId expects: n1 serves chain 9, n2 serves chain 9"/
  })
  fault.remove()
  await until(async () => (await get(reads[0] ?? '')).status === 200, 'the read succeeds')
  t.notMatch((await sendRequest(varve.adminUrl, '/readyz')).body, /chainId/)
  await right.close()
  t.match(await get('/v1/accounts/0x2/modules?ledger_version=5000'), {
    status: 503,
    body: /"no upstream could answer"/
  })
})
