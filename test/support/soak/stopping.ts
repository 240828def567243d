import { Agent } from 'node:http'
import { type Test } from 'tap'
import { within } from '../../../src/within.js'
import { type Chance } from '../fleet/chance.js'
import { drawWish } from '../fleet/wish.js'
import { until } from '../until.js'
import { seriesOf, underWay } from './look.js'
import { readOnce } from './reads.js'
import { type Soak } from './soak.js'

const reads = 60
const slowMs = 400
const stopMs = 10_000

/** Told to end in the middle of its work, varve answers whom it has heard, and ends well. */
export async function stopUnderWay (t: Test, soak: Soak, chance: Chance): Promise<void> {
  const { program, world: { fleet, chain }, tally } = soak
  const before = tally.told.length
  for (const node of fleet.nodes) node.sicken({ kind: 'slow', ms: slowMs })
  const agent = new Agent({ keepAlive: true })
  const answered = Promise.all(Array.from({ length: reads }, async () => {
    await readOnce(soak, drawWish(chance, fleet, chain.present), chance, agent, false)
  }))
  await until(async () => underWay(await seriesOf(program)) > 0, 'nodes are being asked')
  const toldAt = performance.now()
  program.terminate()
  const code = await within(stopMs, program.ended)
  t.equal(code, 0, `it has ended after ${Math.round(performance.now() - toldAt)} ms`)
  await answered
  agent.destroy()
  t.same(tally.told.slice(before), [], 'who was heard before it was told to end is answered')
}
