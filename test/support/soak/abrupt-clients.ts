import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { drawRead } from '../model/draw-read.js'
import { drawStyle, renderRequest } from '../model/render-request.js'
import { rawRequestBytes } from '../model/request.js'
import { type SeededRandom } from '../model/seeded-random.js'
import { type SoakRun } from './soak-run.js'

const leaveEveryMs = 40
const mostSentAhead = 4
const longestStayMs = 60

/** Runs clients that disconnect after some requests, inside a request, or inside a response. */
export async function runLeavingClients (
  { program, world, tally }: SoakRun,
  chance: SeededRandom,
  signal: AbortSignal
): Promise<void> {
  const { hostname, port } = new URL(program.url)
  const gone: Array<Promise<void>> = []
  while (!signal.aborted) {
    const bytes = Buffer.concat(Array.from(
      { length: chance.integerBetween(1, mostSentAhead) },
      () => rawRequestBytes(renderRequest(drawRead(chance, world.source), drawStyle(chance)))
    ))
    const sent = chance.happens(0.2) ? bytes.subarray(0, chance.integerBetween(1, bytes.length - 1)) : bytes
    const stayMs = chance.happens(0.3) ? 0 : chance.integerBelow(longestStayMs)
    gone.push((async () => {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.write(sent)
      await pause(stayMs)
      if (chance.happens(0.5)) socket.resetAndDestroy()
      else socket.destroy()
      tally.note('left: rude')
    })())
    await pause(chance.integerBelow(2 * leaveEveryMs))
  }
  await Promise.all(gone)
}
