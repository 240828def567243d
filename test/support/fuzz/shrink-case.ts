import { Tally } from '../model/tally.js'
import { type FuzzCase, defaultSetting, type FuzzStep } from './fuzz-case.js'
import { type RedisProvider } from './case-redis.js'
import { CaseRunner } from './case-runner.js'

/** Runs an exact case; returns the reason of its failure, or undefined. */
export async function failureOf ({ setting, steps }: FuzzCase, redis: RedisProvider): Promise<string | undefined> {
  const play = await CaseRunner.start({ ...defaultSetting, ...setting }, new Tally(), redis)
  try {
    for (const step of steps) await play.runStep(step)
    await play.finish()
    return undefined
  } catch (error) {
    return (error as Error).message
  } finally {
    await play.stop()
  }
}

/** Removes all parts without which a case still fails, within a time limit. */
export async function shrinkCase (found: FuzzCase, ms: number, redis: RedisProvider): Promise<FuzzCase> {
  const until = performance.now() + ms
  let shortest = found
  const isLeft = async (steps: readonly FuzzStep[], setting = shortest.setting): Promise<boolean> => {
    if (performance.now() > until) return false
    const why = await failureOf({ setting, steps }, redis)
    if (why !== undefined) shortest = { why, setting, steps }
    return why !== undefined
  }
  const { isShared, pinsPages, followMode, memoryKb, auditShare } = shortest.setting
  if (!await isLeft(shortest.steps, {})) {
    for (
      const plainer of [
        { isShared, pinsPages, followMode, memoryKb, auditShare },
        { followMode },
        { isShared, auditShare },
        { pinsPages },
        { auditShare },
        { isShared }
      ]
    ) await isLeft(shortest.steps, given(plainer))
  }
  for (let size = Math.ceil(shortest.steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    // Goes backwards, so that earlier indexes stay valid.
    for (let at = shortest.steps.length - size; at >= 0; at -= size) await isLeft(shortest.steps.toSpliced(at, size))
  }
  for (let at = shortest.steps.length - 1; at >= 0; at--) {
    for (const shorter of partsOf(shortest.steps[at])) if (await isLeft(shortest.steps.with(at, shorter))) break
    for (let request = 0; request < requestsOf(shortest.steps[at]); request++) {
      for (const plainer of simplerAt(shortest.steps[at], request)) await isLeft(shortest.steps.with(at, plainer))
    }
  }
  return shortest
}

const given = (setting: object): FuzzCase['setting'] =>
  Object.fromEntries(Object.entries(setting).filter(([, value]) => value !== undefined))

const requestsOf = (step: FuzzStep | undefined): number =>
  step !== undefined && 'requests' in step ? step.requests.length : 0

/** Returns each request alone, all but one, and the step without the ledger's change. */
function partsOf (step: FuzzStep | undefined): FuzzStep[] {
  if (step === undefined || !('requests' in step)) return []
  const { requests, meanwhile, ...to } = step
  const alone = requests.length > 1 ? requests.map(each => ({ ...to, requests: [each] })) : []
  const without = requests.length > 2 ? requests.map((_, at) => ({ ...step, requests: requests.toSpliced(at, 1) })) : []
  return [...alone, ...(meanwhile === undefined ? [] : [{ ...to, requests }]), ...without]
}

/** Returns a request without one of its header fields. */
function simplerAt (step: FuzzStep | undefined, at: number): FuzzStep[] {
  if (step === undefined || !('requests' in step)) return []
  const sent = step.requests[at]
  return sent === undefined
    ? []
    : sent.headers.map((_, nth) => ({
      ...step,
      requests: step.requests.with(at, { ...sent, headers: sent.headers.toSpliced(nth, 1) })
    }))
}
