import { type VarveWithUpstreams } from './multiple-upstreams.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}&limit=1`

/** Reads consecutive versions with limited concurrency; returns their latencies, the longest last. */
export async function readLatencies (
  { get }: VarveWithUpstreams,
  from: number,
  count: number,
  atATime = 4
): Promise<number[]> {
  const times: number[] = []
  let next = from
  await Promise.all(Array.from({ length: atATime }, async () => {
    while (next < from + count) {
      const began = performance.now()
      const { status } = await get(modules(next++))
      if (status !== 200) throw new Error(`answered ${status}`)
      times.push(performance.now() - began)
    }
  }))
  return times.sort((a, b) => a - b)
}
