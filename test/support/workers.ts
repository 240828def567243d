import { sendRequest } from './client.js'
import { until } from './until.js'
import { type TestVarve } from './varve.js'

/** Token of the workers' admin listener. */
export const token = 's3cret'

/** Silences the log, because processes write to the test's output. */
export const quietConfig = { log: { level: 'silent' as const }, admin: { listen: '127.0.0.1:0', token } }

/** Sends reads on new connections until every worker has had some; returns their responses. */
export async function requestEachWorker (varve: TestVarve, target: string, workers = 2): Promise<string[]> {
  const seen = []
  for (let nth = 0; nth < workers * 2; nth++) seen.push(String((await varve.get(target)).headers['cache-status']))
  return seen
}

/**
 * Returns the pids of all workers; waits for a missing one, since a signal to an undefined pid would hit the test's own
 * processes.
 */
export async function allPidsOf (varve: TestVarve, workers: number): Promise<number[]> {
  let pids: number[] = []
  await until(async () => (pids = await pidsOf(varve)).length === workers, `all ${workers} workers respond`)
  return pids
}

/** Returns the pids of ready workers, as far as they responded. */
export async function pidsOf (varve: TestVarve): Promise<number[]> {
  const { workers } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
    workers: Array<{ pid: number, ready: boolean }>
  }
  return workers.filter(({ ready }) => ready).map(({ pid }) => pid)
}
