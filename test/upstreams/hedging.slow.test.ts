import { monitorEventLoopDelay } from 'node:perf_hooks'
import t, { type Test } from 'tap'
import { startSandboxNode } from '../support/replicas.js'
import { readLatencies, startInFrontOf } from '../support/multiple-upstreams.js'
import { until } from '../support/until.js'

// Makes the embedded node stall the same reads each time, by its own seed.
const seed = 7

/** Measures reads and extra requests with two upstreams: one is fast but stalls at random, one is steady and slow. */
async function stalling (
  t: Test,
  share: number
): Promise<{ p99: number, stalledMs: number, extra: number, mayBeExtra: number }> {
  const upstreams = [
    await startSandboxNode(t, { prunedBlocks: 0, seed }),
    await startSandboxNode(t, { prunedBlocks: 0, seed })
  ]
  upstreams[1]?.faults.add({ kind: 'slow', ms: 40, match: 'account_modules' })
  const served = await startInFrontOf(t, upstreams, { hedge: { share } }, { timeoutMs: 5000 })
  await until(async () => await served.upStates() === '1,1', 'both upstreams are up')
  let read = 0
  const isKnown = async (): Promise<boolean> => (await served.statusOf('n1'))['p95Ms'] !== undefined
  for (; !await isKnown(); read += 40) await readLatencies(served, 2000 + read, 40)
  upstreams[0]?.faults.add({ kind: 'slow', ms: 1000, match: 'account_modules', share: 0.03 })
  served.takeRequestCounts()
  const stalls = monitorEventLoopDelay({ resolution: 5 })
  stalls.enable()
  const times = await readLatencies(served, 8000, 300)
  const extra = served.takeRequestCounts().reduce((sum, count) => sum + count) - times.length
  t.comment(`p95 of the stalling upstream: ${String((await served.statusOf('n1'))['p95Ms'])} ms, ${read} reads before`)
  return {
    mayBeExtra: share * (read + times.length) + 10,
    p99: times[Math.ceil(times.length * 0.99) - 1] ?? NaN,
    stalledMs: stalls.max / 1e6,
    extra
  }
}

t.test(`hedging against random stalls divides the p99 by three within its budget (seed ${seed})`, async t => {
  const [without, hedged] = [await stalling(t, 0), await stalling(t, 0.05)]
  t.comment(`p99 ${without.p99.toFixed(0)} ms without, ${hedged.p99.toFixed(0)} ms with ${hedged.extra} more requests`)
  t.equal(without.extra, 0)
  // Subtracts stalls of the machine: a single one lengthens four reads.
  t.ok(
    (hedged.p99 - hedged.stalledMs) * 3 <= without.p99,
    `${hedged.p99} of ${without.p99} ms, ${hedged.stalledMs} of them stalled`
  )
  t.ok(hedged.extra > 0 && hedged.extra <= hedged.mayBeExtra, `${hedged.extra} more`)
})
