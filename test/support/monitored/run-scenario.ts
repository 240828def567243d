import { once } from 'node:events'
import { connect } from 'node:net'
import { until } from '../until.js'
import { firstReplicaReads } from './first-replica.js'
import { FactCounts, type ChainRegion, type Scenario, redisWritesOf } from './scenario.js'
import { secondReplicaReads } from './second-replica.js'
import { Traffic } from './expected-traffic.js'
import { hangUpstreams, type HangingReads, limitedReplicaReads } from './limited-replica.js'
import { type MonitoredEnvironment } from './monitored-environment.js'
import { otherChainReads } from './other-chain.js'
import { readSoonPruned, readWhilePaused } from './paused-chain.js'

/** Results of a scenario, and reads that still hang. */
export interface ScenarioRun extends HangingReads {
  readonly scene: Scenario
}

/** Runs every kind of read once with a predicted response; at the end the chain is paused and reads hang. */
export async function runScenario (environment: MonitoredEnvironment, region: ChainRegion): Promise<ScenarioRun> {
  const { upstreams: { whole, behind }, growth, first, second, tight } = environment
  const base = whole.ledger.oldest.blockHeight + BigInt(region.above)
  const version = (nth: number): bigint => whole.ledger.block(base + BigInt(nth)).firstVersion
  const scene: Scenario = {
    environment,
    traffic: new Traffic(),
    beside: new Traffic(),
    facts: new FactCounts(),
    region,
    lowest: version(0),
    version
  }
  scene.facts.add('entries of tight before', await tight.metric('varve_cache_entries{tier="memory"}'))
  growth.start()
  const isCut = stopWithinHead(scene)
  const before = await redisWritesOf(first)
  await firstReplicaReads(scene)
  await until(
    async () => await redisWritesOf(first) - before === scene.facts.countOf('stored by first'),
    'the entry is written to Redis'
  )
  await secondReplicaReads(scene)
  await otherChainReads(scene)
  await readWhilePaused(scene, await readSoonPruned(environment))
  await limitedReplicaReads(scene)
  await isCut
  growth.pause()
  const { head, oldest } = whole.ledger
  for (const varve of [first, second, tight]) {
    await until(
      async () =>
        await varve.metric('varve_ledger_version') === Number(head.version) &&
        await varve.metric('varve_ledger_oldest_version') === Number(oldest.version),
      'every replica knows where the chain stands'
    )
  }
  const lag = Number(head.version - behind.ledger.head.version)
  for (const varve of [first, second]) {
    await until(
      async () => await varve.metric('varve_upstream_lag_versions{upstream="behind"}') === lag,
      'both replicas know how far the upstream lags'
    )
  }
  const hanging = await hangUpstreams(scene)
  const entries = await Promise.all(
    [first, second, tight].map(async varve => await varve.metric('varve_cache_entries{tier="memory"}') ?? 0)
  )
  scene.facts.add('entries after', entries.reduce((sum, count) => sum + count))
  scene.facts.add('entries of tight after', entries[2])
  return { scene, ...hanging }
}

/** Sends a part of a request head and stops: the client gets a 408 and is disconnected. */
async function stopWithinHead ({ environment: { first }, traffic, facts }: Scenario): Promise<void> {
  const { hostname, port } = new URL(first.url)
  const begun = performance.now()
  const socket = connect(Number(port), hostname)
  socket.write('GET /v1 HTTP/1.1\r\n')
  const [response] = await once(socket, 'data')
  await once(socket.resume(), 'close')
  if (!String(response).startsWith('HTTP/1.1 408')) throw new Error(String(response))
  traffic.requests.push({
    instance: new URL(first.adminUrl).host,
    endpoint: 'other',
    outcome: 'rejected',
    status: 408,
    seconds: (performance.now() - begun) / 1000
  })
  facts.add('cut for their head')
}
