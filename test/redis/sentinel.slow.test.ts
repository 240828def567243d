import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import {
  checkResponse,
  checkShared,
  isRedisUp,
  marginMs,
  readiness,
  redisErrorsOf,
  redisWriteCount,
  startReads,
  startReplicaPair,
  timeoutMs,
  untilShared
} from '../support/replicas.js'
import { startSentinel } from '../support/redis-sets.js'
import { slowRedis } from '../support/tcp-gate.js'
import { until } from '../support/until.js'

t.test('a failover under reads causes no client error, and varve shares through the new master', async t => {
  const set = await startSentinel(t)
  const printed = t.capture(console, 'error')
  const pair = await startReplicaPair(t, { sentinel: { name: set.name, hosts: set.hosts }, timeoutMs })
  const { first: one, second, upstream, newTarget } = pair
  await until(async () => await isRedisUp(one) && await isRedisUp(second), 'both replicas reach Redis')
  await checkShared(t, pair, 'it is shared before')
  const first = set.master
  const target = newTarget()
  const written = await redisWriteCount(one)
  await one.get(target)
  await until(async () => await redisWriteCount(one) > written, `${target} is written`)
  t.equal(await first.client.wait(1, 5000), 1, 'and replicated, because a failover loses what is not')

  const reading = startReads(t, second, newTarget)
  await set.failover()
  t.not(set.master, first)
  await until(async () => await isRedisUp(one) && await isRedisUp(second), 'both replicas reach Redis', 6000)
  const { reads, wrong, slowest } = await reading.stop()
  await untilShared(pair)
  await checkShared(t, pair, 'it is shared at the new master')
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.ok((await set.master.client.keys('varve:1:*modules*')).length > 0)
  const requestCount = upstream.requests.length
  checkResponse(t, await second.get(target), target)
  t.equal(upstream.requests.length, requestCount, 'the new master has the old one\'s entries')
  t.same(printed(), [], 'nothing is printed besides the log')
})

t.test('a master killed under reads causes no client error; varve uses the next one once announced', async t => {
  const set = await startSentinel(t)
  const printed = t.capture(console, 'error')
  const pair = await startReplicaPair(t, { sentinel: { name: set.name, hosts: set.hosts }, timeoutMs })
  const { first, second, newTarget } = pair
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis')
  const reading = startReads(t, second, newTarget)
  const killed = set.killMaster()
  await until(async () => !await isRedisUp(second) && !await isRedisUp(first), 'both replicas know that Redis is down')
  t.ok((await readiness(second)).ready)
  await killed
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis', 6000)
  await untilShared(pair)
  // Stops all sentinels: a client that has found its master needs none of them.
  for (const sentinel of set.sentinels) await sentinel.kill()
  await pause(1000)
  t.ok(await isRedisUp(first) && await isRedisUp(second))
  const { reads, wrong, slowest } = await reading.stop()
  await checkShared(t, pair, 'it is shared')
  t.equal(wrong, 0)
  t.ok(reads > 10)
  t.ok(slowest < timeoutMs + marginMs, `the slowest read took ${Math.round(slowest)} ms`)
  t.same(printed().map(({ args }) => args), [], 'nothing is printed besides the log')
})

t.test('varve uses the new master also if it learns of the failover while it asks for the master', async t => {
  const set = await startSentinel(t)
  const [sentinel] = set.sentinels
  if (sentinel === undefined) throw new Error('no sentinel')
  const gate = await slowRedis(t, sentinel)
  // Names no other sentinel, so that all questions pass the gate.
  const onlyOne = (chunk: Buffer): string | undefined =>
    String(chunk).includes('\r\nsentinels\r\n') ? '*0\r\n' : undefined
  gate.scriptedResponse = onlyOne
  const { first } = await startReplicaPair(t, { sentinel: { name: set.name, hosts: [gate.host] }, timeoutMs })
  await until(async () => await isRedisUp(first), 'the replica reaches Redis')
  let asked = 0
  gate.scriptedResponse = chunk => {
    if (!String(chunk).includes('get-master-addr-by-name')) return onlyOne(chunk)
    asked++
    return ''
  }
  await set.master.client.call('CLIENT', 'KILL', 'TYPE', 'normal')
  await until(() => asked > 0, 'the replica asks for the master')
  await set.failover()
  await until(async () => ((await redisErrorsOf(first)).connect ?? 0) > 1, 'the question has failed')
  gate.scriptedResponse = onlyOne
  await until(async () => await isRedisUp(first), 'the replica reaches Redis', 6000)
})
