import { Agent } from 'node:http'
import { type Test } from 'tap'
import { withTimeout } from '../../../src/with-timeout.js'
import { type SeededRandom } from '../simulation/seeded-random.js'
import { drawRead } from '../simulation/read-spec.js'
import { until } from '../until.js'
import { seriesOf, upstreamRequestsInFlight } from './process-snapshot.js'
import { readModelled } from './model-reads.js'
import { type SoakRun } from './soak-run.js'

const reads = 60
const slowMs = 400
const stopMs = 10_000

/** Stops varve under load: it finishes received requests and exits with 0. */
export async function stopUnderLoad (t: Test, soak: SoakRun, chance: SeededRandom): Promise<void> {
  const { program, world: { pool, chain }, tally } = soak
  const before = tally.reports.length
  for (const node of pool.upstreams) node.injectFault({ kind: 'slow', ms: slowMs })
  const agent = new Agent({ keepAlive: true })
  const answered = Promise.all(Array.from({ length: reads }, async () => {
    await readModelled(soak, drawRead(chance, pool, chain.current), chance, agent, false)
  }))
  await until(async () => upstreamRequestsInFlight(await seriesOf(program)) > 0, 'nodes are being asked')
  const toldAt = performance.now()
  program.terminate()
  const code = await withTimeout(stopMs, program.ended)
  t.equal(code, 0, `it has ended after ${Math.round(performance.now() - toldAt)} ms`)
  await answered
  agent.destroy()
  t.same(tally.reports.slice(before), [], 'requests received before the signal get responses')
}
