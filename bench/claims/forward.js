// Measures the processor time of a miss beside proxies that only forward.
import { existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { startForwarder } from '../support/forwarder.js'
import { loadRising } from '../support/load.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { processorTimeOf } from '../support/processor-time.js'
import { mustBeRight } from '../support/check-response.js'
import { middleOf } from '../support/statistics.js'
import { times, whole } from '../support/table.js'
import { startVarve } from '../support/varve.js'

export const name = 'forward'
export const title = 'the processor time of a miss, beside proxies that only forward'
export const needs = ['wrk']

const bytes = 1024
const versionsPerLoad = 10_000_000
// Hedges and retries of varve are upstream reads too.
const mostReadsPerRequest = 1.1
// The last one is beyond the 256 slots that varve has at its upstream.
const allConnections = [32, 256, 1024]

/** Alternates the proxies within each round; every read has a version of its own, so each reaches the upstream. */
export async function run (bench) {
  if (!existsSync('/proc/self/stat')) throw new Error('there is no /proc to read processor times from')
  const origin = await startOrigin(bench)
  const peers = [
    await startNginx(bench, origin.url, { isCaching: false }),
    await startForwarder(bench, 'node:http and undici', 'undici-proxy.js', origin.url),
    await startForwarder(bench, 'Fastify and http-proxy', 'fastify-proxy.js', origin.url),
    await startVarve(bench, origin.url)
  ].filter(peer => peer !== undefined)
  const cells = bench.isSmoke ? allConnections.slice(0, 1) : allConnections
  let nextVersion = 1
  const next = () => (nextVersion += versionsPerLoad) - versionsPerLoad
  const runs = Object.fromEntries(peers.map(({ name }) => [name, cells.map(() => [])]))
  for (const peer of peers) {
    await check(origin, peer, next())
    if (!bench.isSmoke) await loadRising(bench, peer, readsFrom(next()), { connections: 32, seconds: 1 })
  }
  for (let round = 0; round < bench.rounds; round++) {
    for (const [at, connections] of cells.entries()) {
      bench.say(`round ${round + 1} of ${bench.rounds}: ${connections} connections`)
      for (const peer of round % 2 === 0 ? peers : peers.toReversed()) {
        runs[peer.name][at].push(await measure(bench, origin, peer, next(), connections))
      }
    }
  }
  for (const peer of peers) await check(origin, peer, next())
  await Promise.all([...peers, origin].map(peer => peer.stop()))
  return resultOf(cells, runs)
}

const readsFrom = first => ({ first, readOf: version => readOf(bytes, version) })

async function check (origin, peer, version) {
  const request = readOf(bytes, version)
  const { body } = await origin.ask(request)
  mustBeRight(peer, request, await peer.ask(request), body, { hit: false })
}

async function measure (bench, origin, peer, first, connections) {
  const readsBefore = await readsAtRest(origin)
  const timeBefore = processorTimeOf(peer.pid)
  const load = await loadRising(bench, peer, readsFrom(first), { connections, seconds: bench.seconds })
  const time = processorTimeOf(peer.pid) - timeBefore
  const reads = await origin.reads() - readsBefore
  // Requests of the last moment have reached the upstream without a response that counts.
  if (reads < load.requests - load.rejected || reads > load.requests * mostReadsPerRequest + connections) {
    throw new Error(`${peer.name} sent ${reads} upstream reads for ${load.requests} requests`)
  }
  return { ...load, connections, microseconds: time / load.requests }
}

/** Returns the reads so far once the load before has none under way. */
async function readsAtRest (origin) {
  for (let last = await origin.reads();;) {
    await pause(200)
    const reads = await origin.reads()
    if (reads === last) return reads
    last = reads
  }
}

function resultOf (cells, runs) {
  const figures = Object.entries(runs).map(([peer, lists]) => ({
    peer,
    cells: lists.map((list, at) => ({ connections: cells[at], runs: list }))
  }))
  const of = (list, valueOf) => middleOf(list.map(valueOf))
  return {
    figures,
    tables: [{
      title: 'processor time per request in us, all processes of the proxy, body of 1 KiB: median of the rounds ' +
        '(least-most)',
      columns: ['proxy', ...cells.map(connections => `${connections} connections`)],
      rows: figures.map(({ peer, cells }) => [
        peer,
        ...cells.map(({ runs }) => times(of(runs, ({ microseconds }) => microseconds)))
      ])
    }, {
      title: 'what clients saw, medians: responses per second, p99 in ms, and responses other than 200',
      columns: ['proxy', ...cells.flatMap(connections => [`${connections} connections`, 'p99', 'not 200'])],
      rows: figures.map(({ peer, cells }) => [
        peer,
        ...cells.flatMap(({ runs }) => [
          whole(of(runs, ({ perSecond }) => perSecond).median),
          whole(of(runs, ({ latencyMs }) => latencyMs.p99).median),
          whole(of(runs, ({ rejected }) => rejected).median)
        ])
      ])
    }],
    targets: []
  }
}
