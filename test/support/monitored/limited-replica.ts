import { type Hold } from '#sandbox'
import { until } from '../until.js'
import { latestModulesRead, modulesRead, type Scenario, sendPlanned, whileHeld } from './scenario.js'
import { tightConcurrent } from './monitored-environment.js'

/** Number of module reads of the limited replica; some thirty fill its memory. */
const many = 40

/** Number of reads in flight and queued for each upstream slot. */
const queuedPerConnection = 8

/** Exceeds the limits of this replica: its memory overflows, and a client of one request a second sends three. */
export async function limitedReplicaReads (scene: Scenario): Promise<void> {
  const { environment: { tight }, facts, region, version } = scene
  const from = (host: number): Record<string, string> => ({ 'x-forwarded-for': `10.${region.network}.1.${host}` })
  for (let nth = 0; nth < many; nth += tightConcurrent) {
    const together = Array.from({ length: tightConcurrent }, (_, more) => nth + more)
    await Promise.all(together.map(async one => {
      await sendPlanned(scene, tight, modulesRead(version(one)), 'miss', {}, from(one))
    }))
  }
  for (let round = 0; round < 2; round++) {
    await sendPlanned(scene, tight, modulesRead(version(many - 1)), 'hit_memory', {}, from(0))
  }
  await whileHeld(
    scene,
    'account_modules',
    async () => {
      await sendPlanned(scene, tight, modulesRead(version(many)), 'miss', {}, from(200))
    },
    [1, 2].map(more => async () => {
      await sendPlanned(scene, tight, modulesRead(version(many + more)), 'limited', { status: 429 }, from(200))
    })
  )
  facts.add('stored by tight', many + 1)
  facts.add('limited by address', 2)
}

/** Reads that hang at the upstreams until released. */
export interface HangingReads {
  /** Releases the reads and waits for all responses. */
  release(): Promise<void>
}

/** Number of hanging reads of the first replica; none waits for a slot. */
export const hangingOnFirst = 3

/** Number of reads of the limited replica that wait for a slot. */
export const queuedOnTight = queuedPerConnection * (tightConcurrent + 1) - tightConcurrent

/** Makes module reads hang at the upstreams until the queue is full and two reads are rejected. */
export async function hangUpstreams (scene: Scenario): Promise<HangingReads> {
  const { environment: { first, tight, upstreams: { whole, behind } }, facts, region } = scene
  const holds: Hold[] = [whole, behind].map(({ faults }) => faults.hold('account_modules'))
  const from = (host: number): Record<string, string> => ({ 'x-forwarded-for': `10.${region.network}.2.${host}` })
  const hanging = Array.from({ length: hangingOnFirst }, async (_, nth) => {
    await sendPlanned(scene, first, latestModulesRead(10 + nth), 'forwarded')
  })
  const hangsAtTight = (nth: number): void => {
    hanging.push(sendPlanned(scene, tight, latestModulesRead(20 + nth), 'forwarded', {}, from(nth)))
  }
  // Fills the slots first: a poll in progress takes a slot and goes before queued reads.
  for (let nth = 0; nth < tightConcurrent; nth++) hangsAtTight(nth)
  await until(
    () => (holds[0]?.arrivedCount ?? 0) >= hangingOnFirst + tightConcurrent,
    'the tight upstream has all requests that it may have'
  )
  for (let nth = 0; nth < queuedOnTight; nth++) hangsAtTight(tightConcurrent + nth)
  const have = async (series: string, least: number): Promise<boolean> => (await tight.metric(series) ?? 0) >= least
  await until(
    async () =>
      await have('varve_connections', tightConcurrent + queuedOnTight) &&
      await have('varve_upstream_waiting{upstream="whole"}', queuedOnTight),
    'the other reads wait'
  )
  for (const nth of [0, 1]) {
    await sendPlanned(scene, tight, latestModulesRead(60 + nth), 'unavailable', { status: 503 }, from(200 + nth))
  }
  facts.add('no_slot', 2)
  return {
    release: async () => {
      for (const hold of holds) hold.release()
      await Promise.all(hanging)
    }
  }
}
