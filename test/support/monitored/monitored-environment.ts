import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { accelerateRules } from '../alerts/accelerated-rules.js'
import { certificate, certificateKey } from '../certificate.js'
import { type Prometheus, startPrometheus } from '../prometheus.js'
import { type RedisProcess } from '../redis-process.js'
import { startRedis } from '../redis-server.js'
import { startSandboxNode } from '../replicas.js'
import { until } from '../until.js'
import { type TestVarve, varveAt } from '../varve.js'
import { ChainGrowth } from './chain-growth.js'
import { testFolder } from '../test-folder.js'

/** Minimum response time of an upstream, and of modules: in another bucket. */
export const upstreamDelayMs = 60
export const modulesDelayMs = 120

/** Hedge delay of the second replica. */
export const hedgeMs = 400

/** Upstream timeout, long enough that hanging reads never time out on a busy machine. */
const timeoutMs = 60_000

/** Upstream slots of the third replica that reads may use; one more is always free for polls. */
export const tightConcurrent = 2

/** Name and key of the known client. */
export const appClient = { name: 'app', key: 'k'.repeat(40) }

/** Name and key of the client of the other chain. */
export const shopClient = { name: 'shop', key: 's'.repeat(40) }

/** Chain of the three replicas, and that of the replica beside them. */
export const chainIds = { own: '4', other: '9' }

/**
 * Replicas monitored by Prometheus: two that share a Redis and a limited one, and beside them one of another chain; a
 * fifth is not monitored.
 */
export interface MonitoredEnvironment {
  /** Unpruned; ten blocks behind; dead with a short history; on another chain; that of the other chain's replica. */
  readonly upstreams: {
    readonly whole: Sandbox,
    readonly behind: Sandbox,
    readonly dead: Sandbox,
    readonly strange: Sandbox,
    readonly elsewhere: Sandbox
  }
  readonly growth: ChainGrowth
  readonly redis: RedisProcess
  readonly first: TestVarve
  readonly second: TestVarve
  readonly tight: TestVarve
  readonly other: TestVarve
  readonly unwatched: TestVarve
  readonly prometheus: Prometheus
}

/** Starts everything: the chains grow by a block each 200 ms and lose one at the other end. */
export async function startMonitoredEnvironment (t: Test): Promise<MonitoredEnvironment> {
  const chain = { prunedBlocks: 100, windowBlocks: 900, startVersion: 1_000_000n }
  const [whole, behind, dead, strange, elsewhere] = await Promise.all([
    startSandboxNode(t, { ...chain, blocks: 1000 }),
    startSandboxNode(t, { ...chain, blocks: 990, windowBlocks: 600 }),
    startSandboxNode(t, { ...chain, blocks: 1000, prunedBlocks: 990 }),
    startSandboxNode(t, { chainId: 9 }),
    startSandboxNode(t, { ...chain, blocks: 1000, startVersion: 5_000_000n, chainId: Number(chainIds.other) })
  ])
  for (const { faults } of [whole, behind]) {
    faults.add({ kind: 'slow', ms: upstreamDelayMs })
    faults.add({ kind: 'slow', ms: modulesDelayMs, match: 'account_modules' })
  }
  const growth = new ChainGrowth([whole, behind, elsewhere], 200)
  t.teardown(() => {
    growth.stop()
  })
  const redis = await startRedis(t)
  const at = (upstream: Sandbox, name: string, more: object = {}): object => ({
    name,
    url: upstream.url,
    timeoutMs,
    ...more
  })
  const upstreams = [at(whole, 'whole'), at(behind, 'behind'), at(dead, 'dead'), at(strange, 'strange')] as never
  const shared = { upstreams, head: { pollMs: 250 }, cache: { redis: { url: redis.url } }, hedge: { share: 0 } }
  const first = await varveAt(t, '', {
    ...shared,
    clients: { required: false, keys: [{ ...appClient, requestsPerSecond: 1 }] }
  })
  const second = await varveAt(t, '', {
    ...shared,
    audit: { share: 1 },
    // No latest read comes here, so the tail is never read.
    follow: { mode: 'observe' },
    hedge: { share: 0.001, burst: 3, afterMs: hedgeMs }
  })
  // Turns off polls, which the known traffic would not include.
  const unwatched = await varveAt(t, '', {
    ...shared,
    upstreams: [at(whole, 'whole')] as never,
    head: { pollMs: 600_000 }
  })
  const dir = testFolder(t)
  const files = { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') }
  writeFileSync(files.certFile, certificate)
  writeFileSync(files.keyFile, certificateKey)
  const tight = await varveAt(t, '', {
    upstreams: [at(whole, 'whole', { maxConcurrent: tightConcurrent + 1 })] as never,
    head: { pollMs: 250 },
    hedge: { share: 0 },
    tls: files,
    cache: { memory: { maxMb: 1 }, redis: { url: redis.url, keyPrefix: 'tight' } },
    pruned: { answerLocally: false },
    trustProxy: ['loopback'],
    limits: { client: { requestsPerSecond: 1, burst: 1 } }
  })
  // Has what the others lack: a disk tier, and a tail that is read.
  const other = await varveAt(t, '', {
    upstreams: [at(elsewhere, 'elsewhere')] as never,
    head: { pollMs: 250 },
    cache: { memory: { maxMb: 64 }, disk: { path: join(dir, 'disk') } },
    follow: { mode: 'observe' },
    clients: { required: false, keys: [{ ...shopClient, requestsPerSecond: null }] }
  })
  // Waits for all upstreams: while one has never responded, no version is gone for certain.
  for (const varve of [first, second]) {
    await until(
      async () =>
        await varve.metric('varve_upstream_up{upstream="dead"}') === 1 &&
        await varve.metric('varve_upstream_state{upstream="strange",state="quarantined"}') === 1,
      'every upstream was polled'
    )
  }
  dead.faults.add({ kind: 'reset' })
  const rules = join(dir, 'rules.yml')
  writeFileSync(
    rules,
    accelerateRules(readFileSync(join(import.meta.dirname, '../../../config/prometheus-rules.yml'), 'utf8'))
  )
  const prometheus = await startPrometheus(t, {
    targets: [first, second, tight, other].map(({ adminUrl }) => new URL(adminUrl).host),
    rules: [rules]
  })
  const upstreamNodes = { whole, behind, dead, strange, elsewhere }
  return { upstreams: upstreamNodes, growth, redis, first, second, tight, other, unwatched, prometheus }
}
