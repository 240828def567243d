// Measures what several workers share: hits, upstream reads, memory and processor time with the same `maxMb`.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { drawsOf, zipf } from '../support/random.js'
import { inParallel } from '../support/timed-request.js'
import { readOf, startOrigin } from '../support/origin.js'
import { memoryOf, processorTimeOf } from '../support/processor-time.js'
import { startVarve } from '../support/varve.js'

export const name = 'workers'
export const title = 'one cache for all workers'
export const needs = []

const mega = 1024 * 1024
const maxMb = 24
const bytes = 2048
const keys = 20_000
const exponent = 0.9
const atOnce = 16
// A hit rate of several workers this much lower than that of one.
const mostPointsLower = 2
const baseMb = 110
const mostTimes = 1.75

/** Sends the same skewed reads to one, two and four workers whose cache holds a part of them. */
export async function run (bench) {
  const origin = await startOrigin(bench)
  const reads = bench.isSmoke ? 200 : 15_000
  const ways = []
  for (const workers of bench.isSmoke ? [1, 2] : [1, 2, 4]) {
    bench.say(`${workers} workers, ${reads} reads`)
    ways.push(await measure(bench, origin, workers, reads))
  }
  await origin.stop()
  return resultOf(ways)
}

async function measure (bench, origin, workers, reads) {
  const file = join(await bench.folder('config'), 'varve.yaml')
  await writeFile(file, `workers: ${workers}\ncache: { memory: { maxMb: ${maxMb} } }\naudit: { share: 0 }\n`)
  const varve = await startVarve(bench, origin.url, { flags: ['--config', file] })
  const rank = zipf(drawsOf(7), keys, exponent)
  const pass = async () => {
    await inParallel(Array.from({ length: reads }, rank), atOnce, async version => {
      const { status } = await varve.ask(readOf(bytes, version + 1))
      if (status !== 200) throw new Error(`${status} for a read of ${bytes} bytes`)
    })
  }
  await pass()
  const [readsBefore, timeBefore] = [await origin.reads(), processorTimeOf(varve.pid)]
  await pass()
  const upstreamReads = await origin.reads() - readsBefore
  const microseconds = (processorTimeOf(varve.pid) - timeBefore) / reads
  const metrics = await varve.metrics()
  const memory = memoryOf(varve.pid) + metrics.sum('varve_cache_bytes', 'tier="shared"')
  await varve.stop()
  return { workers, upstreamReads, hitPercent: 100 * (1 - upstreamReads / reads), microseconds, memory }
}

function resultOf (ways) {
  const [{ hitPercent: ofOne }] = ways
  return {
    figures: ways,
    tables: [{
      title: `with maxMb: ${maxMb}: skewed reads of ${keys} entries of ${bytes / 1024} KiB`,
      columns: ['workers', 'hits', 'upstream reads', 'memory', 'processor time of a request'],
      rows: ways.map(({ workers, hitPercent, upstreamReads, memory, microseconds }) => [
        workers,
        `${hitPercent.toFixed(1)} %`,
        upstreamReads,
        `${(memory / mega).toFixed(0)} MB`,
        `${microseconds.toFixed(0)} us`
      ])
    }],
    targets: ways.slice(1).flatMap(({ workers, hitPercent, memory }) => [{
      what: `hit rate of ${workers} workers beside one`,
      wanted: `at most ${mostPointsLower} points lower`,
      value: hitPercent - ofOne,
      text: `${(hitPercent - ofOne).toFixed(1)} points`,
      reached: hitPercent >= ofOne - mostPointsLower
    }, {
      what: `memory of ${workers} workers`,
      wanted: `at most ${mostTimes} x maxMb and ${baseMb} MB a process`,
      value: memory / mega,
      text: `${(memory / mega).toFixed(0)} MB`,
      reached: memory / mega <= mostTimes * maxMb + baseMb * (workers + 1)
    }])
  }
}
