import t, { type Test } from 'tap'
import {
  clusterWith,
  errorsOf,
  isUp,
  marginMs,
  readiness,
  readOn,
  type Sharers,
  timeoutMs,
  untilShared,
  waitsAmong
} from '../support/redis-faults.js'
import { until } from '../support/until.js'

/** Sees that reads do not turn to Redis at all. */
async function areNotAsked (t: Test, sharers: Sharers): Promise<void> {
  const before = await errorsOf(sharers.other)
  await waitsAmong(t, sharers, 20)
  t.equal((await errorsOf(sharers.other)).get, before.get, 'no read has asked it')
}

t.test('a cluster node that is frozen costs reads their time at most, and soon no more', async t => {
  const { cluster, sharers } = await clusterWith(t, 3)
  const { other, fresh } = sharers
  const reading = readOn(t, other, fresh)
  cluster.node(2).freeze()
  await until(
    async () => String(await cluster.node(0).client.cluster('NODES')).includes('master,fail '),
    'the others take it for dead'
  )
  const waits = await waitsAmong(t, sharers, 90)
  const { reads, wrong, slowest } = await reading.stop()
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok(waits <= 3, `${waits} of 90 reads waited for the frozen node`)
  cluster.node(2).thaw()
  await cluster.untilWell()
  await until(async () => await waitsAmong(t, sharers, 20) === 0, 'no read waits')
  t.ok(await isUp(other))
})

t.test('a cluster that is gone altogether is not asked, and is used again when it is back', async t => {
  const { cluster, sharers } = await clusterWith(t, 3)
  const { one, other } = sharers
  for (const nth of [0, 1, 2]) cluster.node(nth).freeze()
  await until(async () => await waitsAmong(t, sharers, 5) === 0 && !await isUp(other), 'it is known to be sick')
  await areNotAsked(t, sharers)
  await Promise.all([0, 1, 2].map(async nth => {
    await cluster.node(nth).kill()
  }))
  await areNotAsked(t, sharers)
  for (const nth of [0, 1, 2]) await cluster.node(nth).start()
  await cluster.untilWell()
  await until(async () => await isUp(one) && await isUp(other), 'it is up', 4000)
  // Each reads from it again as soon as it has heard what the others agreed on meanwhile.
  await untilShared(sharers)
})

t.test('a cluster that lacks slots and so serves none is not asked, and is used again when it is whole', async t => {
  const { cluster, sharers } = await clusterWith(t, 3, { args: ['--cluster-require-full-coverage', 'yes'] })
  const { one, other } = sharers
  await cluster.killNode(2)
  await until(async () => await waitsAmong(t, sharers, 5) === 0 && !await isUp(other), 'it is known to be sick')
  await until(
    async () => (await readiness(other)).degraded.some(text => text.startsWith('Redis does not answer: CLUSTERDOWN')),
    'it says why'
  )
  await areNotAsked(t, sharers)
  await cluster.restartNode(2)
  await until(async () => await isUp(one) && await isUp(other), 'it is up', 4000)
  // Each reads from it again as soon as it has heard what the others agreed on meanwhile.
  await untilShared(sharers)
})
