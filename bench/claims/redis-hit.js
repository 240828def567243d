// Measures a read that another replica has stored in Redis, compared with memory and the upstream.
import { setTimeout as pause } from 'node:timers/promises'
import { inParallel, lineOf } from '../support/timed-request.js'
import { readOf, startOrigin } from '../support/origin.js'
import { startRedis } from '../support/redis.js'
import { mustBeRight } from '../support/check-response.js'
import { middleOf, timesOf } from '../support/statistics.js'
import { times } from '../support/table.js'
import { startVarve } from '../support/varve.js'

export const name = 'redis-hit'
export const title = 'a hit in Redis'
export const needs = ['redis-server']

const sizes = [1024, 65_536]
const kinds = ['direct', 'redis', 'memory']
// Redis look-ups that exceed varve's timeout are misses; a busy machine has a few.
const mostLate = 0.05

/** Fills Redis through one varve, then times another one, first from Redis and then from memory. */
export async function run (bench) {
  const samples = bench.isSmoke ? 50 : 1000
  const origin = await startOrigin(bench)
  const redis = await startRedis(bench)
  const flags = ['--redis', redis.url]
  const [sharer, varve] = [
    await startVarve(bench, origin.url, { part: 'rest', flags }),
    await startVarve(bench, origin.url, { flags })
  ]
  const rounds = []
  let version = 0
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}: ${samples} reads of each size`)
    const bySize = {}
    for (const bytes of sizes) {
      const requests = Array.from({ length: samples }, () => readOf(bytes, ++version))
      await share(sharer, requests)
      bySize[bytes] = await timed(origin, varve, requests)
    }
    rounds.push(bySize)
  }
  await Promise.all([sharer, varve, origin, redis].map(peer => peer.stop()))
  return resultOf(rounds)
}

/** Reads everything through one varve and waits for Redis, since writes are asynchronous. */
async function share (sharer, requests) {
  const written = async () => (await sharer.metrics()).sum('varve_cache_writes_total', 'tier="redis"')
  const wanted = await written() + requests.length
  await inParallel(requests, 4, async request => {
    await sharer.ask(request)
  })
  const deadline = performance.now() + 10_000
  while (await written() < wanted) {
    if (performance.now() > deadline) throw new Error('varve did not store all responses in Redis within 10 s')
    await pause(20)
  }
}

async function timed (origin, varve, requests) {
  const lists = { direct: [], redis: [], memory: [] }
  for (const request of requests) {
    const direct = await origin.ask(request)
    lists.direct.push(direct.ms)
    const first = await varve.ask(request)
    mustBeRight(varve, request, first, direct.body, { hit: false })
    if (lineOf(first, 'cache-status') === 'varve; hit; detail=redis') lists.redis.push(first.ms)
    const second = await varve.ask(request)
    mustBeRight(varve, request, second, direct.body)
    lists.memory.push(second.ms)
  }
  const late = requests.length - lists.redis.length
  if (late > mostLate * requests.length) throw new Error(`${late} of ${requests.length} reads were not found in Redis`)
  return { late, ...Object.fromEntries(kinds.map(kind => [kind, timesOf(lists[kind])])) }
}

function resultOf (rounds) {
  const over = (bytes, kind, what) => times(middleOf(rounds.map(round => round[bytes][kind][what])))
  const late = rounds.reduce((sum, round) => sum + sizes.reduce((all, bytes) => all + round[bytes].late, 0), 0)
  return {
    figures: { rounds, late },
    tables: [{
      title: `one read at a time, in ms: median of the rounds (least-most); ${late} reads were not found in Redis ` +
        'in time and do not count as hits',
      columns: ['', ...sizes.flatMap(bytes => [`${bytes / 1024} KiB median`, 'p99'])],
      rows: [['direct from the upstream', 'direct'], ['a hit in Redis', 'redis'], ['a hit in memory', 'memory']]
        .map((
          [label, kind]
        ) => [label, ...sizes.flatMap(bytes => [over(bytes, kind, 'median'), over(bytes, kind, 'p99')])])
    }],
    targets: []
  }
}
