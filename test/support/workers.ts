import { sendRequest } from './client.js'
import { until } from './until.js'
import { type TestVarve } from './varve.js'

/** The token of the workers' admin listener. */
export const token = 's3cret'

/** Processes write to where the test does: what they log is no part of what is tested. */
export const quietConfig = { log: { level: 'silent' as const }, admin: { listen: '127.0.0.1:0', token } }

/** Asks often enough, on connections of its own, that every worker has had its turn; tells how each was answered. */
export async function requestEachWorker (varve: TestVarve, target: string, workers = 2): Promise<string[]> {
  const seen = []
  for (let nth = 0; nth < workers * 2; nth++) seen.push(String((await varve.get(target)).headers['cache-status']))
  return seen
}

/**
 * The processes of all workers; one that was not heard in time for once is waited for, as what is sent to no process in
 * particular would reach all of the test's own.
 */
export async function allPidsOf (varve: TestVarve, workers: number): Promise<number[]> {
  let pids: number[] = []
  await until(async () => (pids = await pidsOf(varve)).length === workers, `all ${workers} answer`)
  return pids
}

/** The processes of the workers that are ready, of those that answered. */
export async function pidsOf (varve: TestVarve): Promise<number[]> {
  const { workers } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
    workers: Array<{ pid: number, ready: boolean }>
  }
  return workers.filter(({ ready }) => ready).map(({ pid }) => pid)
}
