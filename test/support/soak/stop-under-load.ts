import { Agent } from 'node:http'
import { type Test } from 'tap'
import { withTimeout } from '../../../src/with-timeout.js'
import { drawRead } from '../model/draw-read.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { readModelled } from '../simulation/run-reads.js'
import { until } from '../until.js'
import { seriesOf, upstreamRequestsInFlight } from './process-snapshot.js'
import { type SoakRun } from './soak-run.js'

const reads = 60
const slowMs = 400
const stopMs = 10_000

/** Stops varve under load: it finishes received requests and exits with 0. */
export async function stopUnderLoad (t: Test, soak: SoakRun, chance: SeededRandom): Promise<void> {
  const { program, world, tally } = soak
  const before = tally.reports.length
  for (const upstream of world.pool.upstreams) upstream.injectFault({ kind: 'slow', ms: slowMs })
  const agent = new Agent({ keepAlive: true })
  const responses = Promise.all(Array.from({ length: reads }, async () => {
    await readModelled(soak, drawRead(chance, world.source), chance, agent, false)
  }))
  await until(async () => upstreamRequestsInFlight(await seriesOf(program)) > 0, 'upstream requests are in progress')
  const signalledAt = performance.now()
  program.terminate()
  const code = await withTimeout(stopMs, program.ended)
  t.equal(code, 0, `it has ended after ${Math.round(performance.now() - signalledAt)} ms`)
  await responses
  agent.destroy()
  t.same(tally.reports.slice(before), [], 'requests received before the signal get responses')
}
