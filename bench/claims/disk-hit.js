// Measures a read that varve finds on its disk after a restart, compared with memory, Redis, nginx's disk cache, the
// file storage of Varnish and the upstream; and what the disk takes of a cold fill.
import { setTimeout as pause } from 'node:timers/promises'
import { fillTier } from '../support/fill-tier.js'
import { inParallel, lineOf } from '../support/timed-request.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { processorTimeOf } from '../support/processor-time.js'
import { startRedis } from '../support/redis.js'
import { mustBeRight } from '../support/check-response.js'
import { middleOf, timesOf } from '../support/statistics.js'
import { times, whole } from '../support/table.js'
import { startVarnish } from '../support/varnish.js'
import { startVarve } from '../support/varve.js'

export const name = 'disk-hit'
export const title = 'a hit on disk after a restart'
export const needs = []

const sizes = [1024, 65_536]
const fills = [{ bytes: 600, reads: 20_000 }, { bytes: 360_000, reads: 500 }]
const connections = 32
// Look-ups that exceed the time limit of a tier are misses; a busy machine has a few.
const mostLate = 0.05

/**
 * Fills a folder and a Redis through one varve. Then times another one that starts with the folder, first from disk,
 * then from memory, and one that starts with the Redis.
 */
export async function run (bench) {
  const samples = bench.isSmoke ? 50 : 500
  const origin = await startOrigin(bench)
  const redis = bench.tools.paths['redis-server'] === undefined ? undefined : await startRedis(bench)
  const peers = Object.entries({
    nginx: await startNginx(bench, origin.url),
    varnish: await startVarnish(bench, origin.url, { isOnDisk: true })
  }).filter(([, peer]) => peer !== undefined)
  const kinds = ['direct', 'disk', ...(redis === undefined ? [] : ['redis']), ...peers.map(([kind]) => kind), 'memory']
  const rounds = []
  let version = 0
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}: ${samples} reads of each size`)
    const [onDisk, inRedis] = [['--disk', await bench.folder('disk')], redis && ['--redis', redis.url]]
    const bySize = Object.fromEntries(
      sizes.map(bytes => [bytes, Array.from({ length: samples }, () => readOf(bytes, ++version))])
    )
    for (const [tier, flags] of [['disk', onDisk], ['redis', inRedis]]) {
      if (flags === undefined) continue
      const before = await startVarve(bench, origin.url, { flags })
      await fillTier(before, tier, Object.values(bySize).flat())
      await before.stop()
    }
    const tiers = { disk: await startVarve(bench, origin.url, { flags: onDisk }) }
    if (inRedis !== undefined) tiers.redis = await startVarve(bench, origin.url, { flags: inRedis })
    const timesBySize = {}
    for (const bytes of sizes) timesBySize[bytes] = await timed(origin, tiers, peers, bySize[bytes], kinds)
    timesBySize.fills = []
    for (const { bytes, reads } of fills) {
      const requests = Array.from({ length: bench.isSmoke ? 50 : reads }, () => readOf(bytes, ++version))
      timesBySize.fills.push(await filled(bench, origin, requests))
    }
    rounds.push(timesBySize)
    await Promise.all(Object.values(tiers).map(varve => varve.stop()))
  }
  await Promise.all([...peers.map(([, peer]) => peer), redis, origin].map(peer => peer?.stop()))
  return resultOf(rounds, kinds)
}

async function timed (origin, tiers, peers, requests, kinds) {
  const lists = Object.fromEntries(kinds.map(kind => [kind, []]))
  for (const request of requests) {
    const direct = await origin.ask(request)
    lists.direct.push(direct.ms)
    for (const [tier, varve] of Object.entries(tiers)) {
      const first = await varve.ask(request)
      mustBeRight(varve, request, first, direct.body, { hit: false })
      if (lineOf(first, 'cache-status') === `varve; hit; detail=${tier}`) lists[tier].push(first.ms)
    }
    const second = await tiers.disk.ask(request)
    mustBeRight(tiers.disk, request, second, direct.body)
    lists.memory.push(second.ms)
    for (const [kind, peer] of peers) {
      await peer.ask(request)
      const cached = await peer.ask(request)
      mustBeRight(peer, request, cached, direct.body)
      lists[kind].push(cached.ms)
    }
  }
  for (const tier of Object.keys(tiers)) {
    const late = requests.length - lists[tier].length
    if (late > 2 * mostLate * requests.length) {
      throw new Error(`${late} of ${requests.length} reads were not found: ${tier}`)
    }
  }
  return {
    late: requests.length - lists.disk.length,
    ...Object.fromEntries(kinds.map(kind => [kind, timesOf(lists[kind])]))
  }
}

/** Fills a folder from many connections at once, then reads all of it from one after a restart. */
async function filled (bench, origin, requests) {
  const flags = ['--disk', await bench.folder('fill')]
  const before = await startVarve(bench, origin.url, { flags })
  const counted = async what => (await before.metrics()).sum(`varve_cache_${what}_total`, 'tier="disk"')
  const [started, startedAt] = [processorTimeOf(before.pid), performance.now()]
  await inParallel(requests, connections, request => before.ask(request))
  const seconds = (performance.now() - startedAt) / 1000
  while (await counted('writes') + await counted('writes_dropped') < requests.length) await pause(20)
  const fillMicros = (processorTimeOf(before.pid) - started) / requests.length
  const dropped = await counted('writes_dropped')
  await before.stop()
  const after = await startVarve(bench, origin.url, { flags })
  const restarted = processorTimeOf(after.pid)
  let hits = 0
  for (const request of requests) {
    if (lineOf(await after.ask(request), 'cache-status') === 'varve; hit; detail=disk') hits++
  }
  const hitMicros = (processorTimeOf(after.pid) - restarted) / requests.length
  await after.stop()
  return { perSecond: requests.length / seconds, dropped: dropped / requests.length, hits, fillMicros, hitMicros }
}

const labels = {
  direct: 'direct from the upstream',
  disk: 'a hit on disk',
  redis: 'a hit in Redis',
  nginx: 'a hit in nginx\'s disk cache',
  varnish: 'a hit in Varnish\'s file storage',
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
    }, {
      title: `a cold fill by ${connections} connections, then one read of each after a restart; time of the processor`,
      columns: ['bytes', 'fills a second', 'dropped, %', 'us for a fill', 'hits on disk', 'us for a read'],
      rows: fills.map(({ bytes }, at) => {
        const of = what => middleOf(rounds.map(round => round.fills[at][what])).median
        const { perSecond, dropped, fillMicros, hits, hitMicros } = Object.fromEntries(
          ['perSecond', 'dropped', 'fillMicros', 'hits', 'hitMicros'].map(what => [what, of(what)])
        )
        return [bytes, whole(perSecond), (dropped * 100).toFixed(1), whole(fillMicros), whole(hits), whole(hitMicros)]
      })
    }],
    targets: []
  }
}
