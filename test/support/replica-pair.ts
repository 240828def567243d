import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type Test } from 'tap'
import { sendRequest } from './client.js'
import { startIdleMeter } from './idle-meter.js'
import { type ClusterOptions, type RedisCluster, startCluster } from './redis-cluster.js'
import { respondOk, startStubUpstream, type StubUpstream } from './stub-upstream.js'
import { until } from './until.js'
import { type TestVarve, varveAt } from './varve.js'

/** Two replicas that share a Redis, in front of a node that answers at once. */
export interface ReplicaPair {
  readonly upstream: StubUpstream
  readonly first: TestVarve
  readonly second: TestVarve
  /** A read of history that nobody has asked for before. */
  newTarget(): string
}

/** How Redis is reached. */
export type RedisConfigChange = NonNullable<NonNullable<NonNullable<Parameters<typeof varveAt>[2]>['cache']>['redis']>

/** How long a read may wait for Redis in these tests. */
export const timeoutMs = 250

/** What a client waits for that does not come of Redis. */
export const marginMs = 150

// Two sets of replicas at one Redis must not find what the other has read.
let count = 0

/** Starts two replicas at one Redis, however it is reached. */
export async function startReplicaPair (t: Test, redis: RedisConfigChange): Promise<ReplicaPair> {
  const upstream = await startStubUpstream(t, (request, response) => {
    respondOk(response, bodyOf(request.url ?? ''))
  })
  const first = await varveAt(t, upstream.url, { cache: { redis } })
  const second = await varveAt(t, upstream.url, { cache: { redis } })
  return {
    upstream,
    first,
    second,
    newTarget: () => `/v1/accounts/0x${(++count).toString(16).padStart(64, 'f')}/modules?ledger_version=500`
  }
}

/** What the node says to a target: its own text, so that an answer of another read would show. */
function bodyOf (target: string): string {
  return JSON.stringify([target])
}

/**
 * Reads one after another, each new; every answer must be the node's own, and what was waited for the slowest is told.
 */
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

/** Whether an answer is the node's to this very read; nothing is said while all is well. */
export function checkResponse (t: Test, got: { status: number, body: string }, target: string): boolean {
  const isWell = got.status === 200 && got.body === bodyOf(target)
  if (!isWell) t.fail(`${target}: ${got.status} ${got.body}`)
  return isWell
}

/** Sees that what one replica reads is had by the other from Redis, without asking the node. */
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
  t.equal(upstream.requests.filter(asked => asked.endsWith(target)).length, 1, 'the node was asked for it once')
}

/**
 * Waits until what one replica reads is had by the other from Redis again: while servers change places, a write may go
 * to one that loses it.
 */
export async function untilShared ({ first, second, newTarget }: ReplicaPair): Promise<void> {
  await until(async () => {
    const target = newTarget()
    const written = await redisWriteCount(first)
    await first.get(target)
    await until(async () => await redisWriteCount(first) > written, `${target} is written`, 2000)
    return (await second.get(target)).headers['cache-status'] === 'varve; hit; detail=redis'
  }, 'replicas share again')
}

/** How many entries a replica has written to Redis. */
export async function redisWriteCount (varve: TestVarve): Promise<number> {
  return await varve.metric('varve_cache_writes_total{tier="redis"}') ?? NaN
}

/** What varve_redis_up says. */
export async function isRedisUp (varve: TestVarve): Promise<boolean> {
  return await varve.metric('varve_redis_up') === 1
}

/** What the errors of Redis are counted under, and how many of them. */
export async function redisErrorsOf (varve: TestVarve): Promise<Record<string, number>> {
  const { body } = await sendRequest(varve.adminUrl, '/metrics')
  return Object.fromEntries(
    [...body.matchAll(/^varve_redis_errors_total\{operation="(\w+)"\} (\d+)$/gm)].map((
      [, name = '', count]
    ) => [name, Number(count)])
  )
}

/** What the replica says of itself to whoever balances its load. */
export async function readiness (varve: TestVarve): Promise<{ status: number, ready: boolean, degraded: string[] }> {
  const { status, body } = await sendRequest(varve.adminUrl, '/readyz')
  return { status, ...JSON.parse(body) as { ready: boolean, degraded: string[] } }
}

/** Sees that it is ready all the same, and says what is wrong. */
export async function checkDegraded (t: Test, varve: TestVarve, by: RegExp): Promise<void> {
  const { status, ready, degraded } = await readiness(varve)
  t.match({ status, ready }, { status: 200, ready: true }, 'it is ready')
  t.ok(degraded.some(text => by.test(text)), `it says that it is degraded: ${degraded.join('; ')}`)
}

/** Two replicas at a cluster, with entries on all of its nodes that one of them has in memory. */
export async function startReplicaPairAtCluster (
  t: Test,
  count: number,
  options: ClusterOptions = {}
): Promise<{ cluster: RedisCluster, replicas: ReplicaPair, targets: string[] }> {
  const cluster = await startCluster(t, options)
  const replicas = await startReplicaPair(t, { cluster: cluster.hosts, timeoutMs })
  const { first, second, newTarget } = replicas
  await until(async () => await isRedisUp(first) && await isRedisUp(second), 'both are up')
  const targets = Array.from({ length: count }, newTarget)
  for (const target of targets) checkResponse(t, await first.get(target), target)
  await until(async () => await redisWriteCount(first) === count, 'all is written')
  return { cluster, replicas, targets }
}

/** Reads new targets without a pause, several at a time, until told to stop; every answer must be the node's. */
export function startReads (
  t: Test,
  varve: TestVarve,
  fresh: () => string
): { stop: () => Promise<{ reads: number, wrong: number, slowest: number }> } {
  const stopped = new AbortController()
  let [reads, wrong, slowest] = [0, 0, 0]
  // What the whole process stood still is no cost of Redis.
  const stalls = monitorEventLoopDelay({ resolution: 5 })
  stalls.enable()
  const readers = [1, 2, 3].map(async () => {
    while (!stopped.signal.aborted) {
      const target = fresh()
      const began = performance.now()
      if (!checkResponse(t, await varve.get(target), target)) wrong++
      slowest = Math.max(slowest, performance.now() - began)
      reads++
      // The other processes need their turn as well.
      await new Promise(resolve => setTimeout(resolve, 2))
    }
  })
  return {
    stop: async () => {
      stopped.abort()
      await Promise.all(readers)
      stalls.disable()
      return { reads, wrong, slowest: slowest - stalls.max / 1e6 }
    }
  }
}

/** How many of a number of new reads took about as long as Redis is waited for, or did not find it at once. */
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
