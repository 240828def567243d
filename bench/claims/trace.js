// Measures upstream reads and throughput for a skewed trace with many request variants.
import { inParallel } from '../support/timed-request.js'
import { startBare } from '../support/bare.js'
import { startHaproxy } from '../support/haproxy.js'
import { loadTrace } from '../support/load.js'
import { startNginx } from '../support/nginx.js'
import { mustBeRight } from '../support/check-response.js'
import { startSandbox } from '../support/sandbox.js'
import { median, ratioOf } from '../support/statistics.js'
import { spread, whole } from '../support/table.js'
import { makeTrace } from '../support/trace.js'
import { startVarnish } from '../support/varnish.js'
import { startVarve } from '../support/varve.js'

export const name = 'trace'
export const title = 'a trace as clients send it'
export const needs = ['wrk']

const connections = 32
const passConnections = 16

/** Counts upstream reads in one cold pass, then measures warm throughput, alternating servers within each round. */
export async function run (bench) {
  const node = await startSandbox(bench)
  const trace = await makeTrace(node, {
    seed: 5,
    ...(bench.isSmoke ? { requests: 800, reads: 100 } : { requests: 20_000, reads: 2_000 })
  })
  const varve = await startVarve(bench, node.url)
  const proxies = [
    varve,
    await startVarnish(bench, node.url),
    await startNginx(bench, node.url),
    await startHaproxy(bench, node.url)
  ].filter(peer => peer !== undefined)
  const cold = {}
  for (const proxy of proxies) cold[proxy.name] = await coldPass(bench, node, proxy, trace)
  const bare = await startBare(bench, varve, trace.spellings)
  for (const request of trace.spellings) mustBeRight(bare, request, await bare.ask(request), request.expected)
  const peers = [varve, bare, ...proxies.slice(1)]
  const runs = Object.fromEntries(peers.map(peer => [peer.name, []]))
  if (!bench.isSmoke) {
    bench.say('warming up')
    for (const peer of peers) await measure(bench, varve, peer, trace)
  }
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}`)
    for (const peer of round % 2 === 0 ? peers : peers.toReversed()) {
      runs[peer.name].push(await measure(bench, varve, peer, trace))
    }
  }
  await Promise.all([...peers, node].map(peer => peer.stop()))
  return resultOf(trace, cold, runs, peers.map(peer => peer.name))
}

/** Sends the trace once through an empty cache and compares every body with the full node's. */
async function coldPass (bench, node, proxy, { requests }) {
  bench.say(`a cold pass through ${proxy.name}`)
  const before = { reads: await node.reads(), ownReads: await node.ownReads() }
  await inParallel(requests, passConnections, async request => {
    mustBeRight(proxy, request, await proxy.ask(request), request.expected, { hit: false })
  })
  return { nodeReads: await node.reads() - before.reads, ownReads: await node.ownReads() - before.ownReads }
}

async function measure (bench, varve, peer, { requests }) {
  const before = await counted(varve)
  const figures = await loadTrace(bench, peer, requests, { connections, seconds: bench.seconds })
  const after = await counted(varve)
  if (peer === varve && after.hits - before.hits < figures.requests) {
    throw new Error(`varve counted ${after.hits - before.hits} hits of ${figures.requests} requests`)
  }
  if (after.all - after.hits !== before.all - before.hits) throw new Error('varve counted requests as other than hits')
  return figures
}

async function counted (varve) {
  const metrics = await varve.metrics()
  return {
    all: metrics.sum('varve_requests_total'),
    hits: metrics.sum('varve_requests_total', 'outcome="hit_memory"', 'status="200"')
  }
}

function resultOf ({ requests, distinct, spellings }, cold, runs, names) {
  const perThousand = reads => reads / requests.length * 1000
  const rates = Object.fromEntries(names.map(peer => [peer, runs[peer].map(({ perSecond }) => perSecond)]))
  const others = names.filter(peer => peer !== 'varve')
  const ratios = Object.fromEntries(others.map(other => [other, ratioOf(rates.varve, rates[other])]))
  const overFloor = cold.varve.nodeReads / distinct
  return {
    figures: { requests: requests.length, distinct, spellings: spellings.length, cold, runs, ratios },
    tables: [{
      title: `${whole(requests.length)} requests in ${whole(spellings.length)} variants of ${
        whole(distinct)
      } reads, once, cold: upstream reads (Varnish and HAProxy pass POSTs, nginx has their body in its key)`,
      columns: ['', 'upstream reads', 'per thousand requests', 'over the floor', 'background reads'],
      rows: [
        ['the floor', whole(distinct), perThousand(distinct).toFixed(1), '1.00', ''],
        ...Object.entries(cold).map((
          [proxy, { nodeReads, ownReads }]
        ) => [
          proxy,
          whole(nodeReads),
          perThousand(nodeReads).toFixed(1),
          (nodeReads / distinct).toFixed(2),
          proxy === 'varve' ? ownReads : ''
        ])
      ]
    }, {
      title: `the same repeatedly, warm, ${connections} connections: responses per second, median of the rounds, ` +
        'and the ratio of varve to each other server (least-most of the rounds)',
      columns: ['', 'responses per second', 'varve / it'],
      rows: names.map(peer => [peer, whole(median(rates[peer])), peer === 'varve' ? '' : spread(ratios[peer])])
    }],
    targets: [
      {
        what: 'upstream reads over the number of distinct reads',
        wanted: 'at most 1.02',
        value: overFloor,
        text: overFloor.toFixed(3),
        reached: overFloor <= 1.02
      },
      ...[['bare', 0.85], ['nginx', 1.1]].filter(([other]) => others.includes(other)).map(([other, least]) => ({
        what: `the trace: varve/${other}`,
        wanted: `at least ${least}`,
        value: ratios[other].ratio,
        text: spread(ratios[other]),
        reached: ratios[other].ratio >= least
      }))
    ]
  }
}
