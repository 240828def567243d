import { type Case, plainSetting, type Step } from './case.js'
import { type RedisAtHand } from './meeting.js'
import { Play } from './play.js'
import { Tally } from './tally.js'

/** Plays a case to the letter; tells why it is wrong, or undefined. */
export async function wrongIn ({ setting, steps }: Case, redis: RedisAtHand): Promise<string | undefined> {
  const play = await Play.start({ ...plainSetting, ...setting }, new Tally(), redis)
  try {
    for (const step of steps) await play.take(step)
    await play.finish()
    return undefined
  } catch (error) {
    return (error as Error).message
  } finally {
    await play.end()
  }
}

/** Leaves out whatever a case is wrong without, for as long as there is time. */
export async function shortened (found: Case, ms: number, redis: RedisAtHand): Promise<Case> {
  const until = performance.now() + ms
  let shortest = found
  const isLeft = async (steps: readonly Step[], setting = shortest.setting): Promise<boolean> => {
    if (performance.now() > until) return false
    const why = await wrongIn({ setting, steps }, redis)
    if (why !== undefined) shortest = { why, setting, steps }
    return why !== undefined
  }
  const { isShared, pinsPages, isObserving, memoryKb, auditShare } = shortest.setting
  if (!await isLeft(shortest.steps, {})) {
    for (
      const plainer of [
        { isShared, pinsPages, isObserving, memoryKb, auditShare },
        { isShared, auditShare },
        { pinsPages },
        { auditShare },
        { isShared }
      ]
    ) await isLeft(shortest.steps, given(plainer))
  }
  for (let size = Math.ceil(shortest.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    // From behind, since what went wrong at last needs the last of them.
    for (let at = shortest.steps.length - size; at >= 0; at -= size) await isLeft(shortest.steps.toSpliced(at, size))
  }
  for (let at = shortest.steps.length - 1; at >= 0; at--) {
    for (const shorter of partsOf(shortest.steps[at])) if (await isLeft(shortest.steps.with(at, shorter))) break
    for (let request = 0; request < requestsOf(shortest.steps[at]); request++) {
      for (const plainer of plainerAt(shortest.steps[at], request)) await isLeft(shortest.steps.with(at, plainer))
    }
  }
  return shortest
}

const given = (setting: object): Case['setting'] =>
  Object.fromEntries(Object.entries(setting).filter(([, value]) => value !== undefined))

const requestsOf = (step: Step | undefined): number => step !== undefined && 'ask' in step ? step.ask.length : 0

/** Each request alone, and then all but one; and without what becomes of the ledger meanwhile. */
function partsOf (step: Step | undefined): Step[] {
  if (step === undefined || !('ask' in step)) return []
  const { ask, meanwhile, ...to } = step
  const alone = ask.length > 1 ? ask.map(each => ({ ...to, ask: [each] })) : []
  const without = ask.length > 2 ? ask.map((_, at) => ({ ...step, ask: ask.toSpliced(at, 1) })) : []
  return [...alone, ...(meanwhile === undefined ? [] : [{ ...to, ask }]), ...without]
}

/** A request without one of its lines. */
function plainerAt (step: Step | undefined, at: number): Step[] {
  if (step === undefined || !('ask' in step)) return []
  const sent = step.ask[at]
  return sent === undefined
    ? []
    : sent.headers.map((_, nth) => ({
      ...step,
      ask: step.ask.with(at, { ...sent, headers: sent.headers.toSpliced(nth, 1) })
    }))
}
