import { setTimeout as pause } from 'node:timers/promises'
import { sendRequest } from '../client.js'
import { drawRead } from '../model/draw-read.js'
import { plainRequest } from '../model/render-request.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { token } from './configuration.js'
import { type SoakRun } from './soak-run.js'

const purgeEveryMs = 1500
const purgeAllShare = 0.1
const reloadEveryMs = 7000

/** Purges one read or, now and then, everything. */
export async function runPurges (
  { program, world, tally }: SoakRun,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  while (!signal.aborted) {
    if (!await waitUnlessAborted(chance.integerBelow(2 * purgeEveryMs), signal)) return
    const isAll = chance.happens(purgeAllShare)
    const wish = drawRead(chance, world.source)
    if (wish.kind === 'nonsense') continue
    const { method, target, body } = plainRequest(wish)
    const wanted = isAll ? { all: true } : { method, url: target, ...(body !== undefined && { body }) }
    const from = performance.now()
    const { status, body: text } = await sendRequest(program.adminUrl, '/purge', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(wanted)
    })
    tally.note(isAll ? 'fault: purge of all' : 'fault: purge')
    // Accepts 202: purges of an unreachable Redis are applied later.
    const isTaken = (status === 200 || status === 202) && text.startsWith('{"purged":true')
    const isForNothing = status === 400 && (wish.kind === 'gas' || wish.kind === 'info')
    // A worker that has just started or reset may not know its chain yet.
    const isUnknown = status === 503 && world.sharingMs > 0
    const isLate = status === 408 && world.pool.wasStalled({ from, to: performance.now() })
    if (!isTaken && !isForNothing && !isUnknown && !isLate) {
      tally.fail(`a purge returns ${status}`, `${JSON.stringify(wanted)} ${text}`)
    }
  }
}

/** Reloads varve with another configuration now and then. */
export async function runReloads (
  { program, tally, world: { observations, sharingMs } }: SoakRun,
  configOf: (round: number) => object,
  signal: AbortSignal
): Promise<void> {
  for (let round = 1; await waitUnlessAborted(reloadEveryMs, signal); round++) {
    tally.note('fault: reload')
    // New workers know the heads of the old ones only by Redis, which may fail.
    if (sharingMs > 0) observations.pause()
    await program.reload(configOf(round))
    observations.resume()
  }
}

/** Waits; resolves with false if the run ends before. */
export async function waitUnlessAborted (ms: number, signal: AbortSignal): Promise<boolean> {
  return await pause(ms, true, { signal }).catch(() => false)
}
