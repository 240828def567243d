import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import {
  type ReplicaPair,
  checkResponse,
  checkShared,
  countSlowReads,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  redisWriteCount,
  startReads,
  adminToken,
  startReplicaPairAtCluster,
  timeoutMs,
  untilShared
} from '../support/replicas.js'
import { until } from '../support/until.js'

/** Expects that reads send nothing to Redis. */
async function expectNoRedisReads (t: Test, pair: ReplicaPair): Promise<void> {
  const before = await redisErrorsOf(pair.second)
  await countSlowReads(t, pair, 20)
  t.equal((await redisErrorsOf(pair.second)).get, before.get, 'no read was sent to it')
}

t.test('a frozen cluster node costs reads at most their Redis timeout, and soon nothing', async t => {
  const { cluster, replicas } = await startReplicaPairAtCluster(t, 3)
  const { second, newTarget } = replicas
  const reading = startReads(t, second, newTarget)
  cluster.node(2).freeze()
  await until(
    async () => String(await cluster.node(0).client.cluster('NODES')).includes('master,fail '),
    'the other nodes see the master as failed'
  )
  const waits = await countSlowReads(t, replicas, 90)
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(waits <= 3, `${waits} of 90 reads waited for the frozen node`)
  cluster.node(2).thaw()
  await cluster.untilHealthy()
  await until(async () => await countSlowReads(t, replicas, 20) === 0, 'no read waits')
  t.ok(await isRedisUp(second))
})

t.test('reads skip a cluster that is down altogether, and varve uses it again when it is back', async t => {
  const { cluster, replicas } = await startReplicaPairAtCluster(t, 3)
  const { first, second } = replicas
  for (const nth of [0, 1, 2]) cluster.node(nth).freeze()
  await until(
    async () => await countSlowReads(t, replicas, 5) === 0 && !await isRedisUp(second),
    'the replica knows that Redis is down, and no read is slow'
  )
  await expectNoRedisReads(t, replicas)
  await Promise.all([0, 1, 2].map(async nth => {
    await cluster.node(nth).kill()
  }))
  await expectNoRedisReads(t, replicas)
  for (const nth of [0, 1, 2]) await cluster.node(nth).start()
  await cluster.untilHealthy()
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis', 4000)
  // Waits: each replica reads from Redis again after it knows what the others agreed on.
  await untilShared(replicas)
})

t.test('reads skip a cluster that lacks slots, and varve uses it again when it is whole', async t => {
  const { cluster, replicas } = await startReplicaPairAtCluster(t, 3, {
    args: ['--cluster-require-full-coverage', 'yes']
  })
  const { first, second } = replicas
  await cluster.killNode(2)
  await until(
    async () => await countSlowReads(t, replicas, 5) === 0 && !await isRedisUp(second),
    'the replica knows that Redis is down, and no read is slow'
  )
  await until(
    async () =>
      (await readiness(second)).degraded.some(text =>
        /^Redis unreachable: CLUSTERDOWN.*: with cluster-require-full-coverage yes /.test(text)
      ),
    'readiness reports: Redis unreachable, and names the setting'
  )
  await expectNoRedisReads(t, replicas)
  await cluster.restartNode(2)
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis', 4000)
  // Waits: each replica reads from Redis again after it knows what the others agreed on.
  await untilShared(replicas)
})

const hit = 'varve; hit; detail=redis'

t.test('replicas share reads on any node of a cluster, also while a slot moves', async t => {
  const { cluster, replicas: { second, upstream, newTarget }, targets } = await startReplicaPairAtCluster(t, 30)
  const owners = await Promise.all(
    (await cluster.keys('varve:1:*modules*')).map(async key => await cluster.ownerOf(key))
  )
  t.same([...new Set(owners)].sort(), [0, 1, 2], 'entries lie on every node')
  const [moved = ''] = await cluster.keys('varve:1:*modules*')
  const from = await cluster.ownerOf(moved)
  const requestCount = upstream.requests.length
  const reading = startReads(t, second, newTarget)
  const early = targets.slice(0, 15)
  await cluster.moveSlot(await cluster.slotOf(moved), from, (from + 1) % 3, async () => {
    for (const target of early) t.equal((await second.get(target)).headers['cache-status'], hit)
  })
  for (const target of targets.slice(15)) t.equal((await second.get(target)).headers['cache-status'], hit)
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.equal(upstream.requests.length, requestCount + reads, 'the upstream got only new reads')
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(await isRedisUp(second))
  t.same((await readiness(second)).degraded, [])
})

t.test('a purge of an account finds its entries on every node of a cluster', async t => {
  const { cluster, replicas: { second }, targets } = await startReplicaPairAtCluster(t, 12)
  const keys = async (): Promise<string[]> => await cluster.keys('varve:1:*modules*')
  const before = await keys()
  for (const [at, target] of targets.entries()) {
    const purged = await sendRequest(second.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}` },
      body: JSON.stringify({ account: target.split('/')[3] })
    })
    t.match(purged, { status: 200, body: '{"purged":true,"everywhere":true}' })
    t.same((await keys()).sort(), before.filter(key => targets.slice(at + 1).some(other => key.includes(other))).sort())
  }
})

t.test('killing a cluster node under reads causes no client error; the other nodes stay in use', async t => {
  const { cluster, replicas, targets } = await startReplicaPairAtCluster(t, 45)
  const { first, second, upstream, newTarget } = replicas
  const before = await redisErrorsOf(second)
  const known = Array.from({ length: 45 }, newTarget)
  for (const target of known) await first.get(target)
  await until(
    async () => await redisWriteCount(first) === targets.length + known.length,
    'the entries are written to Redis'
  )
  const keys = await cluster.keys('varve:1:*modules*')
  const ownerOf = async (target: string): Promise<number> =>
    await cluster.ownerOf(keys.find(key => key.includes(target.split('/')[3] ?? '')) ?? '')
  const owners = await Promise.all(known.map(ownerOf))
  const [gone, remaining] = [known.filter((_, at) => owners[at] === 1), known.filter((_, at) => owners[at] !== 1)]
  const reading = startReads(t, second, newTarget)
  await cluster.killNode(1)
  const requestCount = upstream.requests.length
  const lost: string[] = []
  for (const target of targets) {
    const got = await second.get(target)
    checkResponse(t, got, target)
    if (got.headers['cache-status'] !== hit) lost.push(target)
  }
  t.ok(lost.length > 0 && lost.length < 30, `${lost.length} of ${targets.length} were on it`)
  t.ok(upstream.requests.length >= requestCount + lost.length)
  await until(
    async () => String(await cluster.node(0).client.cluster('NODES')).includes('master,fail '),
    'the other nodes see the master as failed'
  )
  const waits = await countSlowReads(t, replicas, 60)
  t.ok(waits <= 3, `${waits} of 60 reads waited for the dead node`)
  t.ok(await isRedisUp(second), 'the other nodes are used')
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(gone.length > 5)
  for (const target of gone) checkResponse(t, await second.get(target), target)
  for (const target of remaining) {
    t.equal(
      (await second.get(target)).headers['cache-status'],
      hit,
      'other nodes share reads, whatever number in a row was on the dead node'
    )
  }
  const errors = await redisErrorsOf(second)
  t.ok((errors.get ?? 0) > (before.get ?? 0) && (errors.connect ?? 0) > (before.connect ?? 0), 'the errors are counted')
  await cluster.restartNode(1)
  // Waits until its own third is shared again as well.
  await until(async () => {
    const again = Array.from({ length: 9 }, newTarget)
    const written = await redisWriteCount(second)
    for (const target of again) await second.get(target)
    await until(
      async () => await redisWriteCount(second) >= written + again.length,
      'the entries are written to Redis',
      3000
    )
    const found = await Promise.all(
      again.map(async target => (await replicas.first.get(target)).headers['cache-status'])
    )
    return found.every(status => status === hit)
  }, 'the whole cluster is shared again')
  await checkShared(t, replicas, 'it is shared')
})
