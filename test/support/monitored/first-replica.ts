import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../until.js'
import {
  blockRead,
  eventsRead,
  tableItemRead,
  latestModulesRead,
  type PlannedRead,
  modulesRead,
  type Scenario,
  sendPlanned,
  whileHeld
} from './scenario.js'
import { appClient } from './monitored-environment.js'

/** Reads of history that the first replica fetches and stores. */
export function historyReads ({ version, lowest, region }: Scenario): PlannedRead[] {
  return [
    blockRead(lowest),
    ...[1, 2, 3, 4, 5].map(nth => blockRead(version(nth))),
    ...[1, 2, 3, 4].map(nth => tableItemRead(version(nth))),
    ...[1, 2, 3].map(nth => modulesRead(version(nth))),
    eventsRead(region.event)
  ]
}

/** Runs all reads of the first replica while the upstreams are healthy: misses, hits and all other outcomes. */
export async function firstReplicaReads (scene: Scenario): Promise<void> {
  const { environment: { first }, facts } = scene
  const history = historyReads(scene)
  for (const line of history) await sendPlanned(scene, first, line, 'miss')
  facts.add('stored by first', history.length)
  facts.add('blocks stored by first', 6)
  for (let round = 0; round < 2; round++) {
    for (const line of history) await sendPlanned(scene, first, line, 'hit_memory')
  }
  for (const account of [1, 2, 3]) await sendPlanned(scene, first, latestModulesRead(account), 'forwarded')
  facts.add('latest at first', 3)
  const gas: PlannedRead = { endpoint: 'estimate_gas_price', target: '/v1/estimate_gas_price' }
  await sendPlanned(scene, first, gas, 'forwarded')
  facts.add('latest at first')
  for (let round = 0; round < 3; round++) await sendPlanned(scene, first, gas, 'hit_memory')
  await threeAtOnce(scene)
  await rejectedReads(scene)
  await versionWaitReads(scene)
  await stale(scene)
}

/** Sends three equal reads while the first is in progress. */
async function threeAtOnce (scene: Scenario): Promise<void> {
  const { environment: { first, upstreams: { whole, behind } }, facts, version } = scene
  const alike = tableItemRead(version(5))
  const holds = [whole, behind].map(({ faults }) => faults.hold('table_item'))
  const leading = sendPlanned(scene, first, alike, 'miss')
  await Promise.race(holds.map(async hold => {
    await hold.arrived
  }))
  const joining = [1, 2].map(async () => {
    await sendPlanned(scene, first, alike, 'collapsed')
  })
  // Waits, because nothing reports that a read was coalesced; a late one would be a hit and fail the scenario.
  await pause(200)
  for (const hold of holds) hold.release()
  await Promise.all([leading, ...joining])
  facts.add('stored by first')
}

/** Sends requests that varve rejects, and three at once from a client of one request a second. */
async function rejectedReads (scene: Scenario): Promise<void> {
  const { environment: { first }, facts, version } = scene
  for (let round = 0; round < 2; round++) {
    await sendPlanned(scene, first, { endpoint: 'block_by_version', target: '/v1/blocks/by_version/x' }, 'rejected', {
      status: 400
    })
  }
  await sendPlanned(scene, first, { endpoint: 'other', target: '/elsewhere' }, 'rejected', { status: 404 })
  const key = { 'x-api-key': appClient.key }
  await whileHeld(
    scene,
    'block_by_version',
    async () => {
      await sendPlanned(scene, first, blockRead(version(6)), 'miss', { client: appClient.name }, key)
    },
    [7, 8].map(nth => async () => {
      await sendPlanned(scene, first, blockRead(version(nth)), 'limited', { status: 429, client: appClient.name }, key)
    })
  )
  facts.add('limited by key', 2)
  facts.add('stored by first')
  facts.add('blocks stored by first')
}

/** Waits for a version that comes with the next blocks, and for one that does not. */
async function versionWaitReads (scene: Scenario): Promise<void> {
  const { environment: { first, upstreams: { whole }, growth }, facts, lowest } = scene
  const atLeast = (version: bigint): Record<string, string> => ({ 'x-varve-min-ledger-version': String(version) })
  // Pauses the growth, so that the next block does not come before the read.
  growth.pause()
  const { version } = whole.ledger.head
  const pending = sendPlanned(scene, first, blockRead(lowest), 'hit_memory', {}, atLeast(version + 1n))
  await until(async () => await first.metric('varve_waiting_for_version') === 1, 'the read waits for its version')
  growth.start()
  await pending
  await sendPlanned(
    scene,
    first,
    blockRead(lowest),
    'rejected',
    { status: 404, leastMs: 1000 },
    atLeast(version + 1_000_000_000n)
  )
  facts.add('waits reached')
  facts.add('waits timeout')
}

/** Fails the unpruned upstream twice, for both attempts, so that the lagging one responds behind the served head. */
async function stale (scene: Scenario): Promise<void> {
  const { environment: { first, upstreams: { whole } }, facts } = scene
  const fault = whole.faults.add({
    kind: 'error',
    code: 'internal_error',
    status: 500,
    match: 'account_modules',
    times: 2
  })
  await sendPlanned(scene, first, latestModulesRead(4), 'forwarded')
  fault.remove()
  facts.add('latest at first')
  facts.add('stale')
}
