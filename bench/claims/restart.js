// Measures how many reads are hits right after a restart under load, with the disk tier and without it.
import { setTimeout as pause } from 'node:timers/promises'
import { fillTier } from '../support/fill-tier.js'
import { inParallel, lineOf } from '../support/timed-request.js'
import { readOf, startOrigin } from '../support/origin.js'
import { drawsOf, zipf } from '../support/random.js'
import { middleOf } from '../support/statistics.js'
import { whole } from '../support/table.js'
import { startVarve } from '../support/varve.js'

export const name = 'restart'
export const title = 'the first ten seconds after a restart'
export const needs = []

const bodyBytes = 1024
const exponent = 0.9
const perSecond = 500
const atOnce = 8

/** Fills a folder, then restarts varve under a steady load with the folder and without. */
export async function run (bench) {
  const [reads, seconds] = bench.isSmoke ? [200, 1] : [5_000, 10]
  const origin = await startOrigin(bench)
  const flags = ['--disk', await bench.folder('disk')]
  const known = Array.from({ length: reads }, (_, rank) => readOf(bodyBytes, rank + 1))
  const before = await startVarve(bench, origin.url, { flags })
  await fillTier(before, 'disk', known)
  await before.stop()
  const runs = { disk: [], none: [] }
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}`)
    for (const [kind, how] of [['disk', { flags }], ['none', {}]]) {
      runs[kind].push(await restarted(bench, origin, how, known, { seconds, seed: round + 1 }))
    }
  }
  await origin.stop()
  return resultOf(runs, reads, seconds)
}

/** Starts varve and sends reads by Zipf's law at a steady rate, from the moment at which it listens. */
async function restarted (bench, origin, how, known, { seconds, seed }) {
  const varve = await startVarve(bench, origin.url, how)
  const rank = zipf(drawsOf(seed), known.length, exponent)
  const before = await origin.reads()
  const started = performance.now()
  const counts = { hits: 0, all: 0 }
  const requests = Array.from({ length: seconds * perSecond }, () => known[rank()])
  await inParallel(requests, atOnce, async (request, at) => {
    const early = started + at / perSecond * 1000 - performance.now()
    if (early > 0) await pause(early)
    const answer = await varve.ask(request)
    if (answer.status !== 200) throw new Error(`varve responded ${answer.status} to ${request.path}`)
    counts.all++
    if (lineOf(answer, 'cache-status').startsWith('varve; hit')) counts.hits++
  })
  const reads = await origin.reads() - before
  await varve.stop()
  return { hitRate: counts.hits / counts.all, upstreamReads: reads }
}

function resultOf (runs, reads, seconds) {
  const rateOf = kind => {
    const { median, least, most } = middleOf(runs[kind].map(({ hitRate }) => hitRate * 100))
    return `${median.toFixed(1)} (${least.toFixed(1)}-${most.toFixed(1)})`
  }
  return {
    figures: { runs },
    tables: [{
      title: `${whole(seconds * perSecond)} reads of ${
        whole(reads)
      } in ${seconds} s: median of the rounds (least-most)`,
      columns: ['', 'hit rate, %', 'upstream reads'],
      rows: [['with the disk tier', 'disk'], ['without', 'none']].map(([label, kind]) => [
        label,
        rateOf(kind),
        whole(middleOf(runs[kind].map(({ upstreamReads }) => upstreamReads)).median)
      ])
    }],
    targets: []
  }
}
