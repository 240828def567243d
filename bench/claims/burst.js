// Measures a burst of equal misses: upstream reads, and the latency of the slowest client.
import { Client } from 'undici'
import { ask, inParallel } from '../support/timed-request.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { mustBeRight, warmWith } from '../support/check-response.js'
import { middleOf, timesOf } from '../support/statistics.js'
import { startVarnish } from '../support/varnish.js'
import { startVarve } from '../support/varve.js'

export const name = 'burst'
export const title = 'a burst of equal misses'
export const needs = []

const bytes = 4096
const delayMs = 200

/** Sends one request on each of a thousand open connections, all at once, to each proxy in turn. */
export async function run (bench) {
  const clients = bench.isSmoke ? 100 : 1000
  const origin = await startOrigin(bench)
  const peers = [
    await startVarve(bench, origin.url),
    await startVarnish(bench, origin.url),
    await startNginx(bench, origin.url)
  ].filter(peer => peer !== undefined)
  const known = readOf(bytes, 1)
  for (const peer of peers) await warmWith(peer, known, (await origin.ask(known)).body)
  const runs = Object.fromEntries(peers.map(peer => [peer.name, []]))
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}: ${clients} clients`)
    for (const peer of peers) {
      runs[peer.name].push(await burst(origin, peer, clients, known, readOf(bytes, 1000 + round)))
    }
  }
  await Promise.all([...peers, origin].map(peer => peer.stop()))
  return resultOf(runs, clients)
}

async function burst (origin, peer, count, known, request) {
  const clients = Array.from({ length: count }, () => new Client(peer.url))
  try {
    // Opens connections beforehand in small groups, so that the burst contains requests only.
    await inParallel(clients, 50, async client => {
      await ask(client, known)
    })
    const { body: expected } = await origin.ask(request)
    const before = await origin.reads()
    await origin.delay(delayMs)
    const answers = await Promise.all(clients.map(client => ask(client, request)))
    await origin.delay(0)
    for (const answer of answers) mustBeRight(peer, request, answer, expected, { hit: false })
    return { nodeReads: await origin.reads() - before, ...timesOf(answers.map(answer => answer.ms)) }
  } finally {
    await Promise.all(clients.map(client => client.destroy()))
  }
}

function resultOf (runs, clients) {
  const most = Object.fromEntries(
    Object.entries(runs).map(([peer, list]) => [peer, Math.max(...list.map(({ nodeReads }) => nodeReads))])
  )
  const over = (list, what) => {
    const { median, least, most } = middleOf(list.map(figures => figures[what]))
    return `${Math.round(median)} (${Math.round(least)}-${Math.round(most)})`
  }
  return {
    figures: { clients, delayMs, runs },
    tables: [{
      title:
        `${clients} equal misses at once, with an upstream that takes ${delayMs} ms: median of the rounds (least-most)`,
      columns: ['', 'upstream reads', 'median response, ms', 'slowest response, ms'],
      rows: Object.entries(runs).map((
        [peer, list]
      ) => [peer, over(list, 'nodeReads'), over(list, 'median'), over(list, 'most')])
    }],
    targets: [{
      what: `upstream reads for ${clients} equal misses, the most of any round`,
      wanted: '1',
      value: most.varve,
      text: String(most.varve),
      reached: most.varve === 1
    }]
  }
}
