import t, { type Test } from 'tap'
import {
  type ReplicaPair,
  countSlowReads,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  startReads,
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
