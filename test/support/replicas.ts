import { type Test } from 'tap'
import { type Sandbox, type SandboxOptions, startSandbox } from '#sandbox'
import { type RedisProcess } from './redis-process.js'
import { until } from './until.js'
import { type TestVarve } from './varve.js'

/** Control key of the embedded node's chain. */
export const controlKey = 'varve:1:control 4'

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

/** Returns the generations that a replica has adopted, in order. */
export function adoptedGenerations (varve: TestVarve): unknown[] {
  return varve.log.filter(({ msg }) => msg === 'key generation changed').map(({ generation }) => generation)
}

/** Returns the generations that replicas have published. */
export async function publishedGenerations (redis: RedisProcess, key = controlKey): Promise<string[]> {
  return (await redis.client.hkeys(key)).filter(field => field.startsWith('g')).sort()
}

/** Waits until every replica has read the others' state: it restores its own deleted sign then. */
export async function untilAllSynced (redis: RedisProcess): Promise<void> {
  for (const sign of (await redis.client.hkeys(controlKey)).filter(field => field.startsWith('r'))) {
    await redis.client.hdel(controlKey, sign)
    await until(
      async () => await redis.client.hexists(controlKey, sign) === 1,
      'the replica has read the control record'
    )
  }
}

/** Waits until a replica has written this many entries to Redis. */
export async function untilWritten (varve: TestVarve, entries: number): Promise<void> {
  await until(
    async () => await varve.metric('varve_cache_writes_total{tier="redis"}') === entries,
    `${entries} written to Redis`
  )
}
