import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../until.js'
import { blockAt, eventsFrom, itemAt, latestModules, type Line, modulesAt, type Scene, sends } from './scene.js'
import { app } from './stage.js'

/** What the first replica asks the nodes for, and keeps. */
export function historyOf ({ version, lowest, place }: Scene): Line[] {
  return [
    blockAt(lowest),
    ...[1, 2, 3, 4, 5].map(nth => blockAt(version(nth))),
    ...[1, 2, 3, 4].map(nth => itemAt(version(nth))),
    ...[1, 2, 3].map(nth => modulesAt(version(nth))),
    eventsFrom(place.event)
  ]
}

/**
 * The first replica reads from the nodes, then from its memory, and all else that befalls reads while the nodes are
 * well.
 */
export async function firstReplicaReads (scene: Scene): Promise<void> {
  const { stage: { first }, facts } = scene
  const history = historyOf(scene)
  for (const line of history) await sends(scene, first, line, 'miss')
  facts.add('kept by first', history.length)
  facts.add('blocks kept by first', 6)
  for (let round = 0; round < 2; round++) for (const line of history) await sends(scene, first, line, 'hit_memory')
  for (const account of [1, 2, 3]) await sends(scene, first, latestModules(account), 'forwarded')
  facts.add('of the moment at first', 3)
  const gas: Line = { endpoint: 'estimate_gas_price', target: '/v1/estimate_gas_price' }
  await sends(scene, first, gas, 'forwarded')
  facts.add('of the moment at first')
  for (let round = 0; round < 3; round++) await sends(scene, first, gas, 'hit_memory')
  await threeAtOnce(scene)
  await refusals(scene)
  await waits(scene)
  await stale(scene)
}

/** Three ask for the same while one is on its way. */
async function threeAtOnce (scene: Scene): Promise<void> {
  const { stage: { first, nodes: { whole, behind } }, facts, version } = scene
  const alike = itemAt(version(5))
  const holds = [whole, behind].map(({ faults }) => faults.hold('table_item'))
  const leading = sends(scene, first, alike, 'miss')
  await Promise.race(holds.map(async hold => {
    await hold.arrived
  }))
  const joining = [1, 2].map(async () => {
    await sends(scene, first, alike, 'collapsed')
  })
  // Nothing tells that a read has joined; one that came later would be a hit, and the play would fail.
  await pause(200)
  for (const hold of holds) hold.release()
  await Promise.all([leading, ...joining])
  facts.add('kept by first')
}

/** What varve refuses by itself, and a client with a key of one request a second that asks for three at once. */
async function refusals (scene: Scene): Promise<void> {
  const { stage: { first }, facts, version } = scene
  for (let round = 0; round < 2; round++) {
    await sends(scene, first, { endpoint: 'block_by_version', target: '/v1/blocks/by_version/x' }, 'rejected', {
      status: 400
    })
  }
  await sends(scene, first, { endpoint: 'other', target: '/elsewhere' }, 'rejected', { status: 404 })
  const key = { 'x-api-key': app.key }
  await sends(scene, first, blockAt(version(6)), 'miss', { client: app.name }, key)
  for (const nth of [7, 8]) {
    await sends(scene, first, blockAt(version(nth)), 'limited', { status: 429, client: app.name }, key)
  }
  facts.add('limited by key', 2)
  facts.add('kept by first')
  facts.add('blocks kept by first')
}

/** A wait that is over with the next blocks, and one in vain. */
async function waits (scene: Scene): Promise<void> {
  const { stage: { first, nodes: { whole }, growth }, facts, lowest } = scene
  const atLeast = (version: bigint): Record<string, string> => ({ 'x-varve-min-ledger-version': String(version) })
  // Or the next block may be there before the read is.
  growth.halt()
  const { version } = whole.ledger.head
  const waiting = sends(scene, first, blockAt(lowest), 'hit_memory', {}, atLeast(version + 1n))
  await until(async () => await first.metric('varve_waiting_for_version') === 1, 'it waits')
  growth.go()
  await waiting
  await sends(
    scene,
    first,
    blockAt(lowest),
    'rejected',
    { status: 404, leastMs: 1000 },
    atLeast(version + 1_000_000_000n)
  )
  facts.add('waits reached')
  facts.add('waits timeout')
}

/** The whole node fails, twice as it is asked twice, so that one answers which is behind what was shown. */
async function stale (scene: Scene): Promise<void> {
  const { stage: { first, nodes: { whole } }, facts } = scene
  const fault = whole.faults.add({
    kind: 'error',
    code: 'internal_error',
    status: 500,
    match: 'account_modules',
    times: 2
  })
  await sends(scene, first, latestModules(4), 'forwarded')
  fault.remove()
  facts.add('of the moment at first')
  facts.add('stale')
}
