import { type RedisProcess } from '../redis-process.js'
import { until } from '../until.js'
import { type TestVarve } from '../varve.js'
import { historyReads } from './first-replica.js'
import { hedgeMs } from './monitored-environment.js'
import { tableItemRead, type PlannedRead, modulesRead, type Scenario, sendPlanned, redisWritesOf } from './scenario.js'

/** Reads the first replica's entries from Redis; each hit is audited. */
export async function secondReplicaReads (scene: Scenario): Promise<void> {
  const { facts } = scene
  for (const outcome of ['hit_redis', 'hit_memory'] as const) {
    for (const line of historyReads(scene)) await untilAudited(scene, 'equal', line, outcome)
  }
  facts.add('looked up by second', historyReads(scene).length)
  facts.add('audits equal', 2 * historyReads(scene).length)
  await falsifyResponses(scene)
  await corruptEntries(scene)
  await hedge(scene)
}

/** Makes both upstreams give responses that differ from the cached ones. */
async function falsifyResponses (scene: Scenario): Promise<void> {
  const { environment: { upstreams: { whole, behind } }, facts, version } = scene
  const lies = [whole, behind].map(({ faults }) => faults.add({ kind: 'body', body: '"77"', match: 'table_item' }))
  await untilAudited(scene, 'different', tableItemRead(version(1)), 'hit_memory')
  for (const lie of lies) lie.remove()
  facts.add('audits different')
}

/** Writes foreign data into Redis: one malformed entry, and one value of another type. */
async function corruptEntries (scene: Scenario): Promise<void> {
  const { environment: { first, second, redis }, facts, version } = scene
  const junk = tableItemRead(version(9))
  const list = tableItemRead(version(10))
  const junkKey = await keyOf(redis, first, async () => {
    await sendPlanned(scene, first, junk, 'miss')
  })
  const listKey = await keyOf(redis, first, async () => {
    await sendPlanned(scene, first, list, 'miss')
  })
  await redis.client.set(junkKey, 'junk')
  await redis.client.del(listKey)
  await redis.client.lpush(listKey, 'x')
  for (const line of [junk, list]) await sendPlanned(scene, second, line, 'miss')
  facts.add('stored by first', 2)
  facts.add('stored by second', 2)
  facts.add('corrupt')
  facts.add('redis get fails')
}

/** Makes the first-ranked upstream hang while the other responds. */
async function hedge (scene: Scenario): Promise<void> {
  const { environment: { second, upstreams: { whole, behind } }, facts } = scene
  const line: PlannedRead = modulesRead(behind.ledger.head.version - 500n)
  const holds = [whole, behind].map(({ faults }) => faults.hold('account_modules'))
  const reading = sendPlanned(scene, second, line, 'miss', { leastMs: hedgeMs })
  const [former, beside] = await Promise.race(holds.map(async (hold, at) => {
    await hold.arrived
    return at === 0 ? holds : [...holds].reverse()
  }))
  await beside?.arrived
  beside?.release()
  await reading
  former?.release()
  facts.add('hedges won')
  facts.add('stored by second')
}

// Number of tries, because a busy machine may skip audits several times in a row.
const tries = 20

/** Reads hits until an audit has compared one; counts unaudited hits as facts too. */
async function untilAudited (
  scene: Scenario,
  result: string,
  line: PlannedRead,
  outcome: 'hit_redis' | 'hit_memory'
): Promise<void> {
  const { environment: { second }, facts } = scene
  const count = async (of: string): Promise<number> => await second.metric(`varve_audit_total{result="${of}"}`) ?? 0
  for (let tried = 0; tried < tries; tried++) {
    const [before, unknown] = [await count(result), await count('unavailable')]
    await sendPlanned(scene, second, line, tried === 0 ? outcome : 'hit_memory')
    await until(
      async () => await count(result) + await count('unavailable') > before + unknown,
      `an audit is ${result}`
    )
    if (await count(result) > before) return
    facts.add('audits unavailable')
  }
  throw new Error(`no audit was ${result}`)
}

/** Returns the Redis key of a read's entry. */
async function keyOf (redis: RedisProcess, varve: TestVarve, reads: () => Promise<void>): Promise<string> {
  const before = new Set(await redis.client.keys('varve:1:*'))
  const written = await redisWritesOf(varve)
  await reads()
  await until(async () => await redisWritesOf(varve) === written + 1, 'the entry is written to Redis')
  const [key] = (await redis.client.keys('varve:1:*')).filter(name => !before.has(name))
  if (key === undefined) throw new Error('nothing new in Redis')
  return key
}
