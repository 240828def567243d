import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'
import { type Sandbox } from '#sandbox'
import { certificate, certificateKey } from './certificate.js'
import { type TestRequest, sendRequest, tableItemLookup } from './client.js'
import { type Prometheus, startPrometheus } from './prometheus.js'
import { type RedisProcess, startRedis } from './redis-server.js'
import { blockTarget, startSandboxNode } from './replicas.js'
import { testFolder } from './test-folder.js'
import { until } from './until.js'
import { type TestVarve, varveAt } from './varve.js'

/** Chain of three replicas, and that of the replica beside them. */
export const chainIds = { own: '4', other: '9' }

const key = { name: 'app', key: 'k'.repeat(40) }

/** Replicas under traffic that a Prometheus watches; its rules take a second for each minute. */
export interface MonitoredReplicas {
  /** Unpruned; ten blocks behind; dead; on another chain; that of the other chain's replica. */
  readonly upstreams: Readonly<Record<'whole' | 'behind' | 'dead' | 'strange' | 'elsewhere', Sandbox>>
  readonly redis: RedisProcess
  readonly first: TestVarve
  readonly second: TestVarve
  readonly tight: TestVarve
  /** Serves the other chain, has nothing wrong and gets no reads. */
  readonly other: TestVarve
  readonly prometheus: Prometheus
}

/** Starts everything; the chains grow by a block each 200 ms and lose one at the other end. */
export async function startMonitoredReplicas (t: Test): Promise<MonitoredReplicas> {
  const chain = { prunedBlocks: 100, windowBlocks: 900, startVersion: 1_000_000n }
  const [whole, behind, dead, strange, elsewhere] = await Promise.all([
    startSandboxNode(t, { ...chain, blocks: 1000 }),
    startSandboxNode(t, { ...chain, blocks: 990 }),
    startSandboxNode(t, { ...chain, blocks: 1000 }),
    startSandboxNode(t, { chainId: Number(chainIds.other) }),
    startSandboxNode(t, { ...chain, blocks: 1000, chainId: Number(chainIds.other) })
  ])
  for (const { faults } of [whole, behind]) faults.add({ kind: 'slow', ms: 60 })
  whole.faults.add({ kind: 'error', code: 'internal_error', status: 500, match: 'account_modules', share: 0.1 })
  const redis = await startRedis(t)
  const dir = testFolder(t)
  const named = { whole, behind, dead, strange }
  const shared = {
    upstreams: Object.entries(named).map(([name, { url }]) => ({ name, url })) as never,
    head: { pollMs: 250 },
    cache: { redis: { url: redis.url } }
  }
  const first = await varveAt(t, '', { ...shared, clients: { keys: [{ ...key, requestsPerSecond: 1 }] } })
  const second = await varveAt(t, '', {
    ...shared,
    audit: { share: 1 },
    cache: { ...shared.cache, disk: { path: join(dir, 'disk') } },
    follow: { mode: 'observe' },
    hedge: { share: 0.001, afterMs: 400 }
  })
  const tight = await varveAt(t, '', {
    upstreams: [{ name: 'whole', url: whole.url, maxConcurrent: 3 }] as never,
    head: { pollMs: 250 },
    cache: { memory: { maxMb: 1 } },
    pruned: { answerLocally: false },
    trustProxy: ['loopback'],
    limits: { client: { requestsPerSecond: 1, burst: 1 } }
  })
  const tls = { certFile: join(dir, 'c.pem'), keyFile: join(dir, 'k.pem') }
  writeFileSync(tls.certFile, certificate)
  writeFileSync(tls.keyFile, certificateKey)
  const other = await varveAt(t, '', {
    upstreams: [{ name: 'elsewhere', url: elsewhere.url }] as never,
    head: { pollMs: 250 },
    tls
  })
  for (const varve of [first, second]) {
    await until(
      async () => await varve.metric('varve_upstream_state{upstream="strange",state="quarantined"}') === 1,
      'every upstream was polled'
    )
  }
  dead.faults.add({ kind: 'reset' })
  const rules = join(dir, 'rules.yml')
  writeFileSync(
    rules,
    accelerateRules(readFileSync(join(import.meta.dirname, '../../config/prometheus-rules.yml'), 'utf8'))
  )
  const prometheus = await startPrometheus(t, {
    targets: [first, second, tight, other].map(({ adminUrl }) => new URL(adminUrl).host),
    rules: [rules]
  })
  const upstreams = { whole, behind, dead, strange, elsewhere }
  const monitored = { upstreams, redis, first, second, tight, other, prometheus }
  keepBusy(t, monitored)
  return monitored
}

/** Grows the chains and sends every kind of read five times a second, whatever the responses. */
function keepBusy (t: Test, { upstreams, first, second, tight }: MonitoredReplicas): void {
  const { whole, behind, elsewhere } = upstreams
  const { ledger } = whole
  const oldest = ledger.oldest.blockHeight
  const versionAt = (above: number): bigint => ledger.block(oldest + BigInt(above)).firstVersion
  const modules = (version: bigint, limit: number): string =>
    `/v1/accounts/0x1/modules?ledger_version=${version}&limit=${limit}`
  const latest = '/v1/accounts/0x1/modules?limit=1'
  const gone = blockTarget(ledger.oldest.version - 5000n)
  let nth = 0
  const timer = setInterval(() => {
    for (const { ledger } of [whole, behind, elsewhere]) ledger.grow()
    nth++
    const version = versionAt(600 + nth % 20)
    const send = (varve: TestVarve, target: string, request: TestRequest = {}): void => {
      sendRequest(varve.url, target, request).catch(() => {})
    }
    const ofKey = { headers: { 'x-api-key': key.key } }
    const next = { headers: { 'x-varve-min-ledger-version': String(ledger.head.version + 1n) } }
    for (const varve of [first, second]) {
      for (const target of [blockTarget(version), modules(version, 1), latest, '/v1/estimate_gas_price', gone]) {
        send(varve, target)
      }
      send(varve, `/v1/tables/0x1/item?ledger_version=${version}`, tableItemLookup('u64', '"5"'))
    }
    // Three alike are one upstream request; one version leaves the window soon and stays cached.
    for (let many = 0; many < 3; many++) send(first, modules(version, 2 + nth % 900))
    for (const target of [blockTarget(versionAt(20)), '/nowhere']) send(first, target)
    for (let many = 0; many < 2; many++) send(first, latest, ofKey)
    send(first, blockTarget(version), next)
    // Fills the memory; each client but the last has its rate to itself.
    for (let many = 0; many < 4; many++) {
      send(tight, modules(versionAt(700 + nth % 100), 10 + many), { headers: clientHeaders(nth, many) })
    }
    for (const target of [latest, latest, gone]) send(tight, target, { headers: clientHeaders(0, 0) })
    // Exceeds the upstream's slots and the queue for them.
    const surplus = nth % 10 === 0 ? 40 : 0
    for (let many = 0; many < surplus; many++) send(tight, latest, { headers: clientHeaders(nth, 50 + many) })
  }, 200)
  t.teardown(() => {
    clearInterval(timer)
  })
}

function clientHeaders (nth: number, many: number): Record<string, string> {
  return { 'x-forwarded-for': `10.${nth >> 8}.${nth & 255}.${many}` }
}

const seconds = { m: 1, h: 60, d: 1440 } as const

/**
 * Returns the text of a rules file with each minute of a range or a delay as a second. Thresholds and per-second rates
 * stay, so a test waits seconds for alerts.
 */
export function accelerateRules (rules: string): string {
  return rules.replace(
    /(?<=\[|\[\d+[mhd]:|offset |for: )(\d+)([mhd])\b/g,
    (_, count: string, unit: keyof typeof seconds) => `${Number(count) * seconds[unit]}s`
  )
}
