import { type Hold } from '#sandbox'
import { until } from '../until.js'
import { latestModulesRead, modulesRead, type Scenario, sendPlanned } from './scenario.js'
import { tightConcurrent } from './monitored-environment.js'

/** How many reads of modules the short replica makes; some thirty fill its memory. */
const many = 40

/** How many may wait for each that is under way. */
const waitingPerConnection = 7

/**
 * The replica that is short of everything: its memory overflows, and a client of one request a second asks for three at
 * once.
 */
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
  await sendPlanned(scene, tight, modulesRead(version(many)), 'miss', {}, from(200))
  for (const more of [1, 2]) {
    await sendPlanned(scene, tight, modulesRead(version(many + more)), 'limited', { status: 429 }, from(200))
  }
  facts.add('kept by tight', many + 1)
  facts.add('limited by address', 2)
}

/** What hangs at the nodes until it is let go. */
export interface HangingReads {
  /** Lets it go, and waits until all of it is answered. */
  release(): Promise<void>
}

/** How many reads of the first replica hang, none of them waiting for a turn. */
export const hangingOnFirst = 3

/** How many of the short replica wait for their turn. */
export const queuedOnTight = waitingPerConnection * tightConcurrent

/** The nodes hang, as far as modules go: reads pile up until two find no room any more. */
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
  // A question of varve's own that is under way would leave less room for those that wait, and goes before them: none
  // is any more when the node holds as many reads as it may be asked at once.
  for (let nth = 0; nth < tightConcurrent; nth++) hangsAtTight(nth)
  await until(() => (holds[0]?.arrivedCount ?? 0) >= hangingOnFirst + tightConcurrent, 'all that may be are under way')
  for (let nth = 0; nth < queuedOnTight; nth++) hangsAtTight(tightConcurrent + nth)
  const have = async (series: string, least: number): Promise<boolean> => (await tight.metric(series) ?? 0) >= least
  await until(
    async () =>
      await have('varve_connections', tightConcurrent + queuedOnTight) &&
      await have('varve_upstream_waiting{upstream="whole"}', queuedOnTight),
    'all others wait'
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
