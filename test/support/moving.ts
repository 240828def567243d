import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { run } from '../cli/command.js'
import { type Ask, item } from './client.js'
import { type RedisProcess } from './redis-process.js'
import { startRedis } from './redis-server.js'
import { control, nodeOf } from './replicas.js'
import { stored } from './said.js'
import { until } from './until.js'
import { type TestVarve, varveAt } from './varve.js'

/** A read, and how it is asked for. */
export type Asked = readonly [target: string, how?: Ask]

/** A folder of its own, which goes with the test. */
export function folderOf (t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'varve-moving-'))
  t.teardown(() => {
    rmSync(folder, { recursive: true })
  })
  return folder
}

/** Reads of every kind that is kept, of an embedded node with a thousand blocks. */
export function readsOf ({ ledger }: Sandbox, blocks = 20): Asked[] {
  const bcs = { headers: { accept: 'application/x-bcs' } }
  const missing = item('u64', '"123456789"')
  const table = '/v1/tables/0x5eed/item?ledger_version=2000'
  const heights = Array.from({ length: blocks }, (_, at) => 200 + at)
  return [
    ...heights.flatMap((
      height
    ): Asked[] => [[`/v1/blocks/by_version/${ledger.block(height).lastVersion}`], [
      `/v1/blocks/by_version/${ledger.block(height).firstVersion}?with_transactions=true`
    ]]),
    [`/v1/blocks/by_version/${ledger.block(300).firstVersion}`, bcs],
    [`/v1/blocks/by_version/${ledger.block(300).firstVersion}?with_transactions=true`, bcs],
    // Large, and compressed in Redis.
    [`/v1/blocks/by_version/${ledger.block(900).firstVersion + 5n}?with_transactions=true`],
    ['/v1/accounts/0x1/modules?ledger_version=2000'],
    ['/v1/accounts/0x1/modules?ledger_version=2000&limit=2'],
    ['/v1/accounts/0x1/modules?ledger_version=2000&limit=2', bcs],
    ['/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events?start=300'],
    [table, item('u64', '"7"')],
    [table, { ...item('u64', '"7"'), headers: { 'content-type': 'application/json', accept: 'application/x-bcs' } }],
    [table, missing],
    // Too long for a key.
    [table, item('0x1::string::String', JSON.stringify('x'.repeat(2000)))]
  ]
}

/** A varve that shares a Redis, and sees at once where its node stands. */
export async function sharing (
  t: Test,
  nodeUrl: string,
  redis: { readonly url: string },
  change: Parameters<typeof varveAt>[2] = {}
): Promise<TestVarve> {
  return await varveAt(t, nodeUrl, {
    ...change,
    cache: { ...change.cache, redis: { url: redis.url, timeoutMs: 5000, ...change.cache?.redis } }
  })
}

/** Has a Redis filled by a varve, which is stopped then: with the reads, and blocks that its chain is known by. */
export async function filled (t: Test, sandbox: Sandbox, redis: RedisProcess, reads: readonly Asked[]): Promise<void> {
  const varve = await sharing(t, sandbox.url, redis)
  await until(
    async () => (await redis.client.hget(control, 'g1'))?.includes('"height"') === true,
    'the chain is known by blocks'
  )
  for (const [target, how] of reads) {
    const { headers } = await varve.get(target, how)
    t.ok(
      [stored, 'varve; fwd=uri-miss; fwd-status=404; stored'].includes(String(headers['cache-status'])),
      `${target} ${String(headers['cache-status'])}`
    )
  }
  await until(
    async () => await varve.metric('varve_cache_writes_total{tier="redis"}') === reads.length,
    'all is shared'
  )
  await varve.stop({ drainMs: 0 })
}

/** A node, a Redis with some of its history, and that as a file. */
export async function exported (
  t: Test
): Promise<{ node: Sandbox, redis: RedisProcess, file: string, folder: string }> {
  const [node, redis] = await Promise.all([nodeOf(t), startRedis(t)])
  await filled(t, node, redis, readsOf(node, 2))
  const folder = folderOf(t)
  const file = join(folder, 'chain.varve')
  t.match(await run(t, ['export', file, '--redis', redis.url]), { code: 0, err: '' })
  return { node, redis, file, folder }
}

/** The keys of entries in a Redis. */
export async function entriesIn (redis: RedisProcess): Promise<string[]> {
  return (await redis.client.keys('varve:1:4.*')).filter(key => !/ (?:whole|half|pages) /.test(key)).sort()
}

/** The last line of a run for programs. */
export const ended = (out: string): Record<string, unknown> =>
  JSON.parse(out.trimEnd().split('\n').at(-1) ?? '') as Record<string, unknown>
