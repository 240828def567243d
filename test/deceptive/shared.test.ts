import t from 'tap'
import { kindOf, kinds, type Truth } from '../support/deceptive/kinds.js'
import { lyingNode, tellOf } from '../support/deceptive/lying-node.js'
import { faultsIn } from '../support/deceptive/trial.js'
import { WireClient } from '../support/deceptive/wire-client.js'
import { chunked, ends, keeps, type Said, wire } from '../support/deceptive/wire.js'
import { startRedis } from '../support/redis-server.js'
import { until } from '../support/until.js'
import { varveAt } from '../support/varve.js'

const lies: ReadonlyArray<readonly [string, (truth: Truth) => Said]> = [
  ['a body cut short', truth => ends(wire(truth, { framing: ['content-length: 999'] }))],
  [
    'a transfer coding',
    truth => ends(wire(truth, { framing: ['transfer-encoding: gzip, chunked'], body: chunked(truth.body) }))
  ],
  ['no position', truth => keeps(wire({ ...truth, stamps: {} }))],
  ['two media types', truth => keeps(wire(truth, { lines: ['content-type: text/html'] }))],
  ['a redirect', truth => keeps(wire(truth, { first: 'HTTP/1.1 302 Found', lines: ['location: /evil'] }))],
  ['two cursors', truth => keeps(wire(truth, { lines: ['x-aptos-cursor: aa', 'x-aptos-cursor: bb'] }))]
]

t.test('nothing of a lie gets into what replicas share: another replica that asks for the same has the truth', async t => {
  const redis = await startRedis(t)
  const node = await lyingNode(t)
  const replicas = await Promise.all(
    [1, 2].map(async () =>
      await varveAt(t, node.url, { cache: { redis: { url: redis.url } }, upstream: { timeoutMs: 1000 } })
    )
  )
  const [first, second] = [new WireClient(replicas[0]?.url ?? ''), new WireClient(replicas[1]?.url ?? '')]
  t.teardown(() => {
    first.close()
    second.close()
  })
  await until(async () => (await replicas[1]?.metric('varve_redis_up')) === 1, 'Redis is up')
  let nth = 0
  for (const [name, say] of lies) {
    for (const kind of kinds.filter(({ isKept }) => isKept)) {
      const truth = kind.truth(++nth)
      tellOf(truth)
      node.lies.set(truth.target, say(truth))
      t.same(faultsIn('broken', truth, await first.ask(kind.request(nth))), [], `${name}: ${kind.name}`)
      node.lies.delete(truth.target)
      t.same(
        faultsIn('truth', truth, await second.ask(kind.request(nth))),
        [],
        `${name}: ${kind.name}, at another replica`
      )
    }
  }
  t.ok(nth > 20)
})

t.test('a release that no node can have is none, and what is read meanwhile is shared all the same', async t => {
  const redis = await startRedis(t)
  const node = await lyingNode(t)
  node.lies.set(
    '/v1',
    keeps(wire({ ...kindOf('info').truth(0), target: '/v1', body: `{"git_hash":"${'a'.repeat(100_000)}"}` }))
  )
  const varve = await varveAt(t, node.url, { cache: { redis: { url: redis.url } } })
  const client = new WireClient(varve.url)
  t.teardown(() => {
    client.close()
  })
  await until(async () => (await varve.metric('varve_redis_up')) === 1, 'Redis is up')
  const kept = kinds.filter(({ isKept }) => isKept)
  for (const [at, kind] of kept.entries()) {
    const truth = kind.truth(at + 1)
    tellOf(truth)
    t.same(faultsIn('truth', truth, await client.ask(kind.request(at + 1))), [], kind.name)
  }
  await until(
    async () => (await varve.metric('varve_cache_writes_total{tier="redis"}') ?? 0) >= kept.length,
    'all of it is shared'
  )
})
