import { type Hold } from '#sandbox'
import { until } from '../until.js'
import { latestModules, modulesAt, type Scene, sends } from './scene.js'
import { tightConcurrent } from './stage.js'

/** How many reads of modules the short replica makes; some thirty fill its memory. */
const many = 40

/** How many may wait for each that is under way. */
const waitingPerConnection = 7

/**
 * The replica that is short of everything: its memory overflows, and a client of one request a second asks for three at
 * once.
 */
export async function shortReplicaReads (scene: Scene): Promise<void> {
  const { stage: { tight }, facts, place, version } = scene
  const from = (host: number): Record<string, string> => ({ 'x-forwarded-for': `10.${place.network}.1.${host}` })
  for (let nth = 0; nth < many; nth += tightConcurrent) {
    const together = Array.from({ length: tightConcurrent }, (_, more) => nth + more)
    await Promise.all(together.map(async one => {
      await sends(scene, tight, modulesAt(version(one)), 'miss', {}, from(one))
    }))
  }
  for (let round = 0; round < 2; round++) {
    await sends(scene, tight, modulesAt(version(many - 1)), 'hit_memory', {}, from(0))
  }
  await sends(scene, tight, modulesAt(version(many)), 'miss', {}, from(200))
  for (const more of [1, 2]) {
    await sends(scene, tight, modulesAt(version(many + more)), 'limited', { status: 429 }, from(200))
  }
  facts.add('kept by tight', many + 1)
  facts.add('limited by address', 2)
}

/** What hangs at the nodes until it is let go. */
export interface Hanging {
  /** Lets it go, and waits until all of it is answered. */
  letGo(): Promise<void>
}

/** How many reads of the first replica hang, none of them waiting for a turn. */
export const hangingAtFirst = 3

/** How many of the short replica wait for their turn. */
export const waitingAtTight = waitingPerConnection * tightConcurrent

/** The nodes hang, as far as modules go: reads pile up until two find no room any more. */
export async function hang (scene: Scene): Promise<Hanging> {
  const { stage: { first, tight, nodes: { whole, behind } }, facts, place } = scene
  const holds: Hold[] = [whole, behind].map(({ faults }) => faults.hold('account_modules'))
  const from = (host: number): Record<string, string> => ({ 'x-forwarded-for': `10.${place.network}.2.${host}` })
  const hanging = Array.from({ length: hangingAtFirst }, async (_, nth) => {
    await sends(scene, first, latestModules(10 + nth), 'forwarded')
  })
  const hangsAtTight = (nth: number): void => {
    hanging.push(sends(scene, tight, latestModules(20 + nth), 'forwarded', {}, from(nth)))
  }
  // A question of varve's own that is under way would leave less room for those that wait, and goes before them: none
  // is any more when the node holds as many reads as it may be asked at once.
  for (let nth = 0; nth < tightConcurrent; nth++) hangsAtTight(nth)
  await until(() => (holds[0]?.count ?? 0) >= hangingAtFirst + tightConcurrent, 'all that may be are under way')
  for (let nth = 0; nth < waitingAtTight; nth++) hangsAtTight(tightConcurrent + nth)
  const have = async (series: string, least: number): Promise<boolean> => (await tight.metric(series) ?? 0) >= least
  await until(
    async () =>
      await have('varve_connections', tightConcurrent + waitingAtTight) &&
      await have('varve_upstream_waiting{upstream="whole"}', waitingAtTight),
    'all others wait'
  )
  for (const nth of [0, 1]) {
    await sends(scene, tight, latestModules(60 + nth), 'unavailable', { status: 503 }, from(200 + nth))
  }
  facts.add('busy', 2)
  return {
    letGo: async () => {
      for (const hold of holds) hold.release()
      await Promise.all(hanging)
    }
  }
}
