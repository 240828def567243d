// Measures a read that varve finds on its disk after a restart, compared with memory, nginx's disk cache and the
// upstream.
import { setTimeout as pause } from 'node:timers/promises'
import { inParallel, lineOf } from '../support/timed-request.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { mustBeRight } from '../support/check-response.js'
import { middleOf, timesOf } from '../support/statistics.js'
import { times } from '../support/table.js'
import { startVarve } from '../support/varve.js'

export const name = 'disk-hit'
export const title = 'a hit on disk after a restart'
export const needs = []

const sizes = [1024, 65_536]
// Look-ups that exceed the time limit of the disk tier are misses; a busy machine has a few.
const mostLate = 0.05

/** Fills a folder through one varve, then times another one that starts with it, first from disk, then from memory. */
export async function run (bench) {
  const samples = bench.isSmoke ? 50 : 500
  const origin = await startOrigin(bench)
  const nginx = await startNginx(bench, origin.url)
  const kinds = ['direct', 'disk', ...(nginx === undefined ? [] : ['nginx']), 'memory']
  const rounds = []
  let version = 0
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}: ${samples} reads of each size`)
    const flags = ['--disk', await bench.folder('disk')]
    const bySize = Object.fromEntries(
      sizes.map(bytes => [bytes, Array.from({ length: samples }, () => readOf(bytes, ++version))])
    )
    const before = await startVarve(bench, origin.url, { flags })
    await store(before, Object.values(bySize).flat())
    await before.stop()
    const varve = await startVarve(bench, origin.url, { flags })
    const timesBySize = {}
    for (const bytes of sizes) timesBySize[bytes] = await timed(origin, varve, nginx, bySize[bytes], kinds)
    rounds.push(timesBySize)
    await varve.stop()
  }
  await Promise.all([nginx, origin].map(peer => peer?.stop()))
  return resultOf(rounds, kinds)
}

/** Reads everything through a varve and waits for its disk, since writes are asynchronous. */
async function store (varve, requests) {
  const written = async () => (await varve.metrics()).sum('varve_cache_writes_total', 'tier="disk"')
  await inParallel(requests, 2, async request => {
    await varve.ask(request)
  })
  const deadline = performance.now() + 10_000
  while (await written() < requests.length * (1 - mostLate)) {
    if (performance.now() > deadline) throw new Error('varve did not store all responses on the disk within 10 s')
    await pause(20)
  }
}

async function timed (origin, varve, nginx, requests, kinds) {
  const lists = Object.fromEntries(kinds.map(kind => [kind, []]))
  for (const request of requests) {
    const direct = await origin.ask(request)
    lists.direct.push(direct.ms)
    const first = await varve.ask(request)
    mustBeRight(varve, request, first, direct.body, { hit: false })
    if (lineOf(first, 'cache-status') === 'varve; hit; detail=disk') lists.disk.push(first.ms)
    const second = await varve.ask(request)
    mustBeRight(varve, request, second, direct.body)
    lists.memory.push(second.ms)
    if (nginx === undefined) continue
    await nginx.ask(request)
    const cached = await nginx.ask(request)
    mustBeRight(nginx, request, cached, direct.body)
    lists.nginx.push(cached.ms)
  }
  const late = requests.length - lists.disk.length
  if (late > 2 * mostLate * requests.length) {
    throw new Error(`${late} of ${requests.length} reads were not found on the disk`)
  }
  return { late, ...Object.fromEntries(kinds.map(kind => [kind, timesOf(lists[kind])])) }
}

const labels = {
  direct: 'direct from the upstream',
  disk: 'a hit on disk',
  nginx: 'a hit in nginx\'s disk cache',
  memory: 'a hit in memory'
}

function resultOf (rounds, kinds) {
  const over = (bytes, kind, what) => times(middleOf(rounds.map(round => round[bytes][kind][what])))
  const late = rounds.reduce((sum, round) => sum + sizes.reduce((all, bytes) => all + round[bytes].late, 0), 0)
  return {
    figures: { rounds, late },
    tables: [{
      title: `one read at a time, in ms: median of the rounds (least-most); ${late} reads were not found on the disk ` +
        'in time and do not count as hits',
      columns: ['', ...sizes.flatMap(bytes => [`${bytes / 1024} KiB median`, 'p99'])],
      rows: kinds.map(kind => [
        labels[kind],
        ...sizes.flatMap(bytes => [over(bytes, kind, 'median'), over(bytes, kind, 'p99')])
      ])
    }],
    targets: []
  }
}
