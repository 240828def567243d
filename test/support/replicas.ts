import { crc32 } from 'node:zlib'
import { type Test } from 'tap'
import { type Heartbeat, parseHeartbeats, parseSpaces, encodeWithChecksum } from '../../src/peers/parse-records.js'
import { type SpaceRecord } from '../../src/chain/space.js'
import { type Sandbox, type SandboxOptions, startSandbox } from '#sandbox'
import { type RedisProcess } from './redis-server.js'
import { until, startIdleMeter } from './until.js'
import { type TestVarve, varveAt } from './varve.js'
import { sendRequest } from './client.js'
import { type ClusterOptions, type RedisCluster, startCluster } from './redis-sets.js'
import { type StubUpstream, respondOk, startStubUpstream } from './stub-upstream.js'

/** Key of the spaces of the embedded node's chain, and of the heartbeats of its replicas. */
export const spacesKey = 'varve:1:spaces 4'
export const heartbeatsKey = 'varve:1:peers 4'
/** Pattern of keys for any space. */
export const anySpace = `varve:1:${'?'.repeat(16)}`

/** Target for the block of a version. */
export const blockTarget = (version: bigint | number): string => `/v1/blocks/by_version/${version}`

/** Starts the embedded node without growth of its own. */
export async function startSandboxNode (t: Test, options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => {
    await sandbox.close()
  })
  return sandbox
}

/** Returns the port of a node, for another in its place. */
export function portOf ({ url }: Sandbox): number {
  return Number(new URL(url).port)
}

/** Returns the names of the spaces that a process has used, in order. */
export function usedSpaces (varve: TestVarve): unknown[] {
  return varve.log.filter(({ msg }) => msg === 'space changed').map(({ space }) => space)
}

/** Returns the space that a process uses. */
export function spaceOf (varve: TestVarve): string {
  return String(usedSpaces(varve).at(-1))
}

/** Returns the spaces in Redis, newest first. */
export async function recordedSpaces (redis: RedisProcess, chainId = 4): Promise<SpaceRecord[]> {
  return parseSpaces(await redis.client.get(`varve:1:spaces ${chainId}`) ?? undefined, chainId)
}

/** Returns the heartbeats in Redis. */
export async function heartbeatsIn (redis: RedisProcess, key = heartbeatsKey): Promise<Heartbeat[]> {
  return parseHeartbeats(await redis.client.get(key) ?? undefined)
}

/** Removes a heartbeat from Redis; its replica writes it again at the end of its next look. */
export async function removeHeartbeat (redis: RedisProcess, removed: string, key = heartbeatsKey): Promise<void> {
  const others = (await heartbeatsIn(redis, key)).filter(({ id }) => id !== removed)
  await redis.client.set(key, encodeWithChecksum(others))
}

/** Waits until processes use one space, which is not this one; returns it. */
export async function untilAgreed (varves: readonly TestVarve[], before?: string): Promise<string> {
  const used = (): Set<string> => new Set(varves.map(spaceOf))
  await until(() => used().size === 1 && (before === undefined || !used().has(before)), 'all use one space')
  return [...used()].join()
}

/** Waits until every replica has read the others' state: it restores its own removed heartbeat then. */
export async function untilAllSynced (redis: RedisProcess): Promise<void> {
  for (const { id } of await heartbeatsIn(redis)) {
    await removeHeartbeat(redis, id)
    await until(
      async () => (await heartbeatsIn(redis)).some(other => other.id === id),
      'the replica has read the records'
    )
  }
}

/** Waits until Redis has keys of a pattern. */
export async function untilInRedis ({ client }: RedisProcess, pattern: string, count = 1): Promise<void> {
  await until(async () => (await client.keys(pattern)).length >= count, `${count} of ${pattern} in Redis`)
}

/** Waits until a space in Redis has blocks to know its chain by. */
export async function untilChainKnown (redis: RedisProcess): Promise<void> {
  await until(async () => (await recordedSpaces(redis)).some(({ anchors }) => anchors.length > 0), 'the chain is known')
}

/** Waits until a replica has written this many entries to Redis. */
export async function untilWritten (varve: TestVarve, entries: number): Promise<void> {
  await until(
    async () => await varve.metric('varve_cache_writes_total{tier="redis"}') === entries,
    `${entries} written to Redis`
  )
}

/** Two replicas that share a Redis, in front of an upstream that responds at once. */
export interface ReplicaPair {
  readonly upstream: StubUpstream
  readonly first: TestVarve
  readonly second: TestVarve
  /** Returns a new read of history. */
  newTarget(): string
}

/** Redis configuration. */
export type RedisConfigChange = NonNullable<NonNullable<NonNullable<Parameters<typeof varveAt>[2]>['cache']>['redis']>

/** Redis timeout of reads in these tests. */
export const timeoutMs = 250

/** Margin for delays that Redis does not cause. */
export const marginMs = 150

// Numbers the pairs, so that two pairs at one Redis never share entries.
let count = 0

/** Admin token of replicas in a pair. */
export const adminToken = 't0ken'

/** Starts two replicas at one Redis of any kind. */
export async function startReplicaPair (t: Test, redis: RedisConfigChange): Promise<ReplicaPair> {
  const upstream = await startStubUpstream(t, (request, response) => {
    respondOk(response, bodyOf(request.url ?? ''))
  })
  const admin = { listen: '127.0.0.1:0', token: adminToken }
  const first = await varveAt(t, upstream.url, { cache: { redis }, admin })
  const second = await varveAt(t, upstream.url, { cache: { redis }, admin })
  return {
    upstream,
    first,
    second,
    newTarget: () => `/v1/accounts/0x${(++count).toString(16).padStart(64, 'f')}/modules?ledger_version=500`
  }
}

/** Returns the upstream's response to a target: a text of its own, so that mix-ups show. */
function bodyOf (target: string): string {
  return JSON.stringify([target])
}

/** Reads new targets one after another; every response must be the upstream's. Returns the longest time. */
export async function slowestOf (t: Test, varve: TestVarve, targets: readonly string[]): Promise<number> {
  let slowest = 0
  for (const target of targets) {
    const waited = startIdleMeter()
    const got = await varve.get(target)
    slowest = Math.max(slowest, waited())
    checkResponse(t, got, target)
  }
  return slowest
}

/** True if a response is the upstream's for this read; asserts only failures. */
export function checkResponse (t: Test, got: { status: number, body: string }, target: string): boolean {
  const isExpected = got.status === 200 && got.body === bodyOf(target)
  if (!isExpected) t.fail(`${target}: ${got.status} ${got.body}`)
  return isExpected
}

/** Expects a read of one replica to be a hit in Redis on the other, without an upstream read. */
export async function checkShared (
  t: Test,
  { upstream, first, second, newTarget }: ReplicaPair,
  message: string
): Promise<void> {
  const target = newTarget()
  const written = await redisWriteCount(first)
  checkResponse(t, await first.get(target), target)
  await until(async () => await redisWriteCount(first) > written, `${target} is written`)
  const got = await second.get(target)
  checkResponse(t, got, target)
  t.equal(got.headers['cache-status'], 'varve; hit; detail=redis', message)
  t.equal(upstream.requests.filter(url => url.endsWith(target)).length, 1, 'the upstream got it once')
}

/** Waits until replicas share again: during a failover a write may go to a server that loses it. */
export async function untilShared ({ first, second, newTarget }: ReplicaPair): Promise<void> {
  await until(async () => {
    const target = newTarget()
    const written = await redisWriteCount(first)
    await first.get(target)
    await until(async () => await redisWriteCount(first) > written, `${target} is written`, 2000)
    return (await second.get(target)).headers['cache-status'] === 'varve; hit; detail=redis'
  }, 'replicas share again')
}

/** Returns the number of entries that a replica has written to Redis. */
export async function redisWriteCount (varve: TestVarve): Promise<number> {
  return await varve.metric('varve_cache_writes_total{tier="redis"}') ?? NaN
}

/** Returns varve_redis_up. */
export async function isRedisUp (varve: TestVarve): Promise<boolean> {
  return await varve.metric('varve_redis_up') === 1
}

/** Returns the Redis errors by operation. */
export async function redisErrorsOf (varve: TestVarve): Promise<Record<string, number>> {
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  return Object.fromEntries(
    [...body.matchAll(/^varve_redis_errors_total\{operation="(\w+)"\} (\d+)$/gm)].map((
      [, name = '', count]
    ) => [name, Number(count)])
  )
}

/** Returns the response of /readyz. */
export async function readiness (varve: TestVarve): Promise<{ status: number, ready: boolean, degraded: string[] }> {
  const { status, body } = await sendRequest(varve.adminUrl, '/readyz')
  return { status, ...JSON.parse(body) as { ready: boolean, degraded: string[] } }
}

/** Expects the replica to be ready and degraded for a reason. */
export async function checkDegraded (t: Test, varve: TestVarve, by: RegExp): Promise<void> {
  const { status, ready, degraded } = await readiness(varve)
  t.match({ status, ready }, { status: 200, ready: true }, 'it is ready')
  t.ok(degraded.some(text => by.test(text)), `it reports: ${degraded.join('; ')}`)
}

/** Starts two replicas at a cluster, with entries on all nodes that one of them has in memory. */
export async function startReplicaPairAtCluster (
  t: Test,
  count: number,
  options: ClusterOptions = {}
): Promise<{ cluster: RedisCluster, replicas: ReplicaPair, targets: string[] }> {
  const cluster = await startCluster(t, options)
  const replicas = await startReplicaPair(t, { cluster: cluster.hosts, timeoutMs })
  const { first, second, newTarget } = replicas
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both replicas reach Redis')
  const targets = Array.from({ length: count }, newTarget)
  for (const target of targets) checkResponse(t, await first.get(target), target)
  await until(async () => await redisWriteCount(first) === count, 'the entries are written to Redis')
  return { cluster, replicas, targets }
}

/** Reads new targets concurrently without pause until stopped; every response must be the upstream's. */
export function startReads (
  t: Test,
  varve: TestVarve,
  fresh: () => string
): { stop: () => Promise<{ reads: number, wrong: number, slowest: number }> } {
  const stopped = new AbortController()
  let [reads, wrong, slowest] = [0, 0, 0]
  const readers = [1, 2, 3].map(async () => {
    while (!stopped.signal.aborted) {
      const target = fresh()
      const waited = startIdleMeter()
      const got = await varve.get(target)
      slowest = Math.max(slowest, waited())
      if (!checkResponse(t, got, target)) wrong++
      reads++
      // Yields processor time to the other processes.
      await new Promise(resolve => setTimeout(resolve, 2))
    }
  })
  return {
    stop: async () => {
      stopped.abort()
      await Promise.all(readers)
      return { reads, wrong, slowest }
    }
  }
}

/** Returns the number of new reads that took about a Redis timeout or missed at first. */
export async function countSlowReads (t: Test, { second, newTarget }: ReplicaPair, count: number): Promise<number> {
  let waits = 0
  for (let at = 0; at < count; at++) {
    const target = newTarget()
    const waited = startIdleMeter()
    checkResponse(t, await second.get(target), target)
    if (waited() > timeoutMs * 0.9) waits++
  }
  return waits
}

/** Returns a value as replicas write it: as JSON after its checksum. A text such as "5n" is a bigint. */
export function sealed (value: unknown): string {
  const text = JSON.stringify(value)
  return `${crc32(text).toString(16)} ${text}`
}
