// Measures the highest throughput of each server for one cached read.
import { startBare } from '../support/bare.js'
import { startHaproxy } from '../support/haproxy.js'
import { load } from '../support/load.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { warmWith } from '../support/check-response.js'
import { median, ratioOf } from '../support/statistics.js'
import { spread, whole } from '../support/table.js'
import { startVarnish } from '../support/varnish.js'
import { startVarve } from '../support/varve.js'

export const name = 'hot-key'
export const title = 'one hot key'
export const needs = ['wrk']

const version = 1000
const sizes = [512, 4096, 65_536]
const mostAuditsUnderWay = 8
// Headers of a client library, without accept-encoding: only varve would compress, so its responses would be smaller.
const clientHeaders = {
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  accept: 'application/json, text/plain, */*',
  'content-type': 'application/json',
  'x-aptos-client': 'aptos-typescript-sdk/1.33.1'
}
const browserHeaders = {
  ...clientHeaders,
  'accept-language': 'en-GB,en;q=0.9,de;q=0.8',
  origin: 'https://app.example',
  referer: 'https://app.example/',
  'sec-fetch-dest': 'empty',
  'sec-fetch-mode': 'cors',
  'sec-fetch-site': 'cross-site',
  'sec-ch-ua': '"Chromium";v="126", "Not.A/Brand";v="8"',
  'sec-ch-ua-mobile': '?0',
  'sec-ch-ua-platform': '"Linux"'
}

/** Measures every combination of size and connections. */
export async function run (bench) {
  const origin = await startOrigin(bench)
  const varve = await startVarve(bench, origin.url)
  const bare = await startBare(bench, varve, sizes.map(bytes => readOf(bytes, version)))
  const peers = [
    varve,
    bare,
    await startVarnish(bench, origin.url),
    await startNginx(bench, origin.url),
    await startHaproxy(bench, origin.url)
  ].filter(peer => peer !== undefined)
  return await compare(bench, origin, varve, peers, cellsOf(bench))
}

/** Alternates servers within each round, so that drift affects all; the claim `tls` does the same over TLS. */
export async function compare (bench, origin, varve, peers, cells) {
  for (const cell of cells) await warm(bench, origin, peers, cell)
  for (let round = 0; round < bench.rounds; round++) {
    for (const cell of cells) {
      bench.say(`round ${round + 1} of ${bench.rounds}: ${cell.label}`)
      // Reverses the order every other round, so that no server always runs on a warmer machine.
      for (const peer of round % 2 === 0 ? peers : peers.toReversed()) await measure(bench, origin, varve, peer, cell)
    }
  }
  for (const cell of cells) for (const peer of peers) await warmWith(peer, cell.request, cell.expected)
  await Promise.all([...peers, origin].map(peer => peer.stop()))
  return resultOf(cells, peers.map(peer => peer.name))
}

function cellsOf ({ isSmoke }) {
  const browser = { bytes: 4096, connections: 32, headers: browserHeaders, sender: ', a browser\'s headers' }
  if (isSmoke) return [{ bytes: 65_536, connections: 32 }, browser].map(cellOf)
  return [
    ...sizes.flatMap(bytes => [1, 32, 256].map(connections => ({ bytes, connections }))),
    { bytes: 4096, connections: 32, headers: clientHeaders, sender: ', a client\'s headers' },
    browser
  ].map(cellOf)
}

/** Completes a combination of size, connections and headers. */
export function cellOf ({ bytes, connections, headers = {}, sender = '' }) {
  return {
    bytes,
    connections,
    headers,
    request: readOf(bytes, version),
    label: `${bytes / 1024} KiB, ${connections} connection${connections === 1 ? '' : 's'}${sender}`,
    runs: {}
  }
}

async function warm (bench, origin, peers, cell) {
  cell.expected = (await origin.ask(cell.request)).body
  for (const peer of peers) {
    await warmWith(peer, cell.request, cell.expected)
    cell.runs[peer.name] = []
    if (!bench.isSmoke) await load(bench, peer, cell.request, { ...cell, seconds: 1 })
  }
}

async function measure (bench, origin, varve, peer, cell) {
  const before = await counters(origin, varve)
  const figures = await load(bench, peer, cell.request, { ...cell, seconds: bench.seconds })
  const after = await counters(origin, varve)
  // Varve audits some hits by default, which costs upstream reads; audits in progress are not counted yet.
  const reads = after.reads - before.reads
  if (reads > after.audits - before.audits + mostAuditsUnderWay * (peer === varve)) {
    throw new Error(`${peer.name} sent ${reads} upstream reads for a cached response`)
  }
  if (peer === varve && after.hits - before.hits < figures.requests) {
    throw new Error(`varve counted ${after.hits - before.hits} hits of ${figures.requests} requests`)
  }
  if (after.others !== before.others) {
    throw new Error(`varve counted ${after.others - before.others} requests as other than hits`)
  }
  cell.runs[peer.name].push(figures)
}

async function counters (origin, varve) {
  const metrics = await varve.metrics()
  const hits = metrics.sum('varve_requests_total', 'outcome="hit_memory"', 'status="200"')
  return {
    reads: await origin.reads(),
    audits: metrics.sum('varve_audit_total'),
    hits,
    others: metrics.sum('varve_requests_total') - hits
  }
}

function resultOf (cells, names) {
  const others = names.filter(peer => peer !== 'varve')
  const figures = cells.map(({ label, bytes, connections, runs }) => {
    const rates = Object.fromEntries(names.map(peer => [peer, runs[peer].map(({ perSecond }) => perSecond)]))
    const ratios = Object.fromEntries(others.map(other => [other, ratioOf(rates.varve, rates[other])]))
    return {
      label,
      bytes,
      connections,
      runs,
      perSecond: Object.fromEntries(names.map(peer => [peer, median(rates[peer])])),
      ratios
    }
  })
  return {
    figures,
    tables: [{
      title: 'responses per second, median of the rounds, and the ratio of varve to each other server (least-most)',
      columns: ['one key', ...names, ...others.map(other => `varve/${other}`)],
      rows: figures.map((
        { label, perSecond, ratios }
      ) => [label, ...names.map(peer => whole(perSecond[peer])), ...others.map(other => spread(ratios[other]))])
    }],
    targets: figures.flatMap(({ label, bytes, ratios }) =>
      leastRatios(bytes).filter(([other]) => others.includes(other)).map(([other, least]) => ({
        what: `hot hits, ${label}: varve/${other}`,
        wanted: `at least ${least}`,
        value: ratios[other].ratio,
        text: spread(ratios[other]),
        reached: ratios[other].ratio >= least
      }))
    )
  }
}

// Writing 64 KiB costs every server about the same, so that no parser decides there.
function leastRatios (bytes) {
  return bytes > 4096 ? [['Varnish', 1], ['nginx', 1]] : [['Varnish', 1.5], ['nginx', 1.25]]
}
