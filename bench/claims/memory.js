// Measures memory per entry beyond its body, and resident memory of the process with a full cache.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { inParallel } from '../support/timed-request.js'
import { inspect } from '../support/inspector.js'
import { readOf, startOrigin } from '../support/origin.js'
import { startVarve } from '../support/varve.js'

export const name = 'memory'
export const title = 'memory per entry, and resident memory at a full cache'
export const needs = []

const mega = 1024 * 1024
const mostPerEntry = 1.2 * 1024
const mostTimes = 1.5
const sampleEveryMs = 200
const atOnce = 16
const warmBytes = 512

const full = {
  entries: [{ bytes: 1024, count: 30_000, warmCount: 10_000 }, { bytes: 65_536, count: 1200, warmCount: 10_000 }],
  caches: [64, 256].flatMap(maxMb => [1024, 65_536].map(bytes => ({ maxMb, bytes })))
}
const smoke = { entries: [{ bytes: 1024, count: 200, warmCount: 10 }], caches: [{ maxMb: 2, bytes: 65_536 }] }

/** Fills a new varve process for each case; every read is different. */
export async function run (bench) {
  const { entries, caches } = bench.isSmoke ? smoke : full
  const origin = await startOrigin(bench)
  const perEntry = []
  for (const way of entries) perEntry.push(await entryOf(bench, origin, way))
  const atFull = []
  for (const way of caches) atFull.push(await fullCacheOf(bench, origin, way))
  await origin.stop()
  return resultOf(perEntry, atFull)
}

/** Compares two numbers of entries, so that the difference excludes the process's own memory. */
async function entryOf (bench, origin, { bytes, count, warmCount }) {
  bench.say(`twice ${count} entries of ${bytes / 1024} KiB`)
  const varve = await startVarve(bench, origin.url, { nodeFlags: ['--inspect=127.0.0.1:0'] })
  const inspector = await inspect(varve.program)
  // Warms up first, since compiled code would otherwise count as entries.
  await fill(varve, warmBytes, 1_000_000, warmCount)
  const looks = []
  for (const part of [0, 1]) {
    await fill(varve, bytes, part * count, count)
    const entries = (await varve.metrics()).sum('varve_cache_entries', 'tier="memory"') - warmCount
    if (entries !== (part + 1) * count) {
      throw new Error(`varve has cached ${entries} entries, not ${(part + 1) * count}`)
    }
    looks.push(await inspector.memory())
  }
  inspector.close()
  await varve.stop()
  const each = valueOf => (valueOf(looks[1]) - valueOf(looks[0])) / count - bytes
  return {
    bytes,
    count,
    looks,
    beyondBody: each(({ heapUsed, external }) => heapUsed + external),
    residentBeyondBody: each(({ rss }) => rss)
  }
}

/** Reads 2.5 times the configured cache size and samples resident memory meanwhile. */
async function fullCacheOf (bench, origin, { maxMb, bytes }) {
  const count = Math.ceil(2.5 * maxMb * mega / (bytes + 1100))
  bench.say(`a cache of ${maxMb} MB, ${count} entries of ${bytes / 1024} KiB`)
  const file = join(await bench.folder('config'), 'varve.yaml')
  await writeFile(file, `cache: { memory: { maxMb: ${maxMb} } }\n`)
  const varve = await startVarve(bench, origin.url, { flags: ['--config', file] })
  const atStart = residentIn(await varve.metrics())
  const filled = new AbortController()
  const sampling = residentUntil(filled.signal, varve)
  await fill(varve, bytes, 0, count)
  filled.abort()
  const samples = await sampling
  const metrics = await varve.metrics()
  if (metrics.sum('varve_cache_evictions_total') === 0) throw new Error('the cache was not full')
  const atEnd = {
    resident: residentIn(metrics),
    heap: metrics.sum('nodejs_heap_size_total_bytes'),
    buffers: metrics.sum('nodejs_external_memory_bytes')
  }
  await varve.stop()
  return {
    maxMb,
    bytes,
    count,
    entries: metrics.sum('varve_cache_entries', 'tier="memory"'),
    cacheBytes: metrics.sum('varve_cache_bytes', 'tier="memory"'),
    atStart,
    atEnd,
    highest: Math.max(...samples, atEnd.resident)
  }
}

async function residentUntil (signal, varve) {
  const samples = []
  while (!signal.aborted) {
    samples.push(residentIn(await varve.metrics()))
    await pause(sampleEveryMs)
  }
  return samples
}

function residentIn (metrics) {
  const bytes = metrics.sum('process_resident_memory_bytes')
  if (bytes === 0) throw new Error('varve does not report its resident memory')
  return bytes
}

async function fill (varve, bytes, from, count) {
  await inParallel(Array.from({ length: count }, (_, at) => from + at), atOnce, async version => {
    const { status, body } = await varve.ask(readOf(bytes, version))
    if (status !== 200 || body.length !== bytes) {
      throw new Error(`${status} and ${body.length} bytes for a read of ${bytes}`)
    }
  })
}

function resultOf (perEntry, atFull) {
  const kilo = bytes => `${(bytes / 1024).toFixed(2)} KiB`
  const megas = bytes => (bytes / mega).toFixed(0)
  const timesOf = ({ highest, maxMb }) => highest / (maxMb * mega)
  return {
    figures: { perEntry, atFull },
    tables: [{
      title: 'an entry beyond its body, from the difference between two amounts of entries, garbage collected ' +
        'before each sample',
      columns: ['body', 'entries', 'heap and buffers', 'resident'],
      rows: perEntry.map((
        { bytes, count, beyondBody, residentBeyondBody }
      ) => [`${bytes / 1024} KiB`, `${count} and ${2 * count}`, kilo(beyondBody), kilo(residentBeyondBody)])
    }, {
      title: 'resident memory in MB while a cache is filled two and a half times over',
      columns: ['maxMb', 'body', 'before', 'at the end', 'of that heap', 'and buffers', 'highest', 'highest / maxMb'],
      rows: atFull.map(
        way => [
          way.maxMb,
          `${way.bytes / 1024} KiB`,
          megas(way.atStart),
          megas(way.atEnd.resident),
          megas(way.atEnd.heap),
          megas(way.atEnd.buffers),
          megas(way.highest),
          timesOf(way).toFixed(2)
        ]
      )
    }],
    targets: [
      ...perEntry.map(({ bytes, beyondBody }) => ({
        what: `an entry of ${bytes / 1024} KiB beyond its body, heap and buffers`,
        wanted: 'at most 1.2 KiB',
        value: beyondBody,
        text: kilo(beyondBody),
        reached: beyondBody <= mostPerEntry
      })),
      ...atFull.map(way => ({
        what: `resident memory at a full cache of ${way.maxMb} MB, bodies of ${way.bytes / 1024} KiB`,
        wanted: `at most ${mostTimes} x maxMb`,
        value: timesOf(way),
        text: timesOf(way).toFixed(2),
        reached: timesOf(way) <= mostTimes
      }))
    ]
  }
}
