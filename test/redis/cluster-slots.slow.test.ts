import t from 'tap'
import {
  checkResponse,
  checkShared,
  countSlowReads,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  redisWriteCount,
  startReads,
  startReplicaPairAtCluster,
  timeoutMs
} from '../support/replicas.js'
import { until } from '../support/until.js'

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
