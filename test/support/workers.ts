import { ask } from './client.js'
import { type TestVarve } from './varve.js'

/** The token of the workers' admin listener. */
export const token = 's3cret'

/** Processes write to where the test does: what they log is no part of what is tested. */
export const quiet = { log: { level: 'silent' as const }, admin: { listen: '127.0.0.1:0', token } }

/** Asks often enough, on connections of its own, that every worker has had its turn; tells how each was answered. */
export async function eachWorker (varve: TestVarve, target: string, workers = 2): Promise<string[]> {
  const seen = []
  for (let nth = 0; nth < workers * 2; nth++) seen.push(String((await varve.get(target)).headers['cache-status']))
  return seen
}

/** The processes of the workers that are ready. */
export async function pidsOf (varve: TestVarve): Promise<number[]> {
  const { workers } = JSON.parse((await ask(varve.adminUrl, '/status.json')).body) as { workers: Array<{ pid: number, ready: boolean }> }
  return workers.filter(({ ready }) => ready).map(({ pid }) => pid)
}
