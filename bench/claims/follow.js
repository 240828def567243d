// Measures latest reads of many clients over a ledger that changes: upstream reads, latency, and stale responses.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { LedgerModel, readOfKey } from '../support/ledger-model.js'
import { startNginx } from '../support/nginx.js'
import { Peer } from '../support/peer.js'
import { timesOf } from '../support/statistics.js'
import { whole } from '../support/table.js'
import { lineOf } from '../support/timed-request.js'
import { startVarve } from '../support/varve.js'

export const name = 'follow'
export const title = 'latest reads of many clients while the ledger changes'
export const needs = []

const origin = fileURLToPath(new URL('../support/ledger-origin.js', import.meta.url))
const keysPerClient = 3
const maxAgeMs = 250
const tickMs = 10
// One head log entry is 100 ms, and a response is judged by the time at which it was sent.
const graceMs = 150
const seed = 7

/** Polls through each proxy in turn, at each rate of the ledger, and holds every response to the ledger. */
export async function run (bench) {
  const size = bench.isSmoke
    ? { clients: 100, keys: 1000, pollSeconds: 1, warmSeconds: 2, seconds: 2 }
    : { clients: 10_000, keys: 100_000, pollSeconds: 10, warmSeconds: 12, seconds: 20 }
  const results = []
  for (const rate of bench.isSmoke ? [60] : [60, 200]) {
    for (const { name, start } of proxies) {
      bench.say(`${name}, ${rate} transactions a second`)
      const node = await startLedger(bench, rate, size.keys)
      const proxy = await start(bench, node.url)
      if (proxy !== undefined) results.push({ name, rate, ...await poll(proxy, node, size) })
      await Promise.all([proxy?.stop(), node.stop()])
    }
  }
  return resultOf(results, size)
}

const proxies = [
  { name: 'varve, follow on', start: async (bench, url) => await configured(bench, url, 'follow: { mode: on }') },
  { name: 'varve', start: async (bench, url) => await startVarve(bench, url) },
  {
    name: 'varve, stateMs 250',
    start: async (bench, url) => await configured(bench, url, `latest: { stateMs: ${maxAgeMs} }`)
  },
  { name: 'nginx, 1 s', start: async (bench, url) => await startNginx(bench, url, { latestFor: '1s' }) }
]

async function configured (bench, url, yaml) {
  const file = join(await bench.folder('varve'), 'varve.yaml')
  await writeFile(file, `${yaml}\n`)
  return await startVarve(bench, url, { flags: ['--config', file] })
}

async function startLedger ({ programs }, rate, keys) {
  const running = await programs.start('the ledger', [
    process.execPath,
    origin,
    String(rate),
    String(keys),
    String(seed)
  ])
  const peer = new Peer('direct', await running.says(line => /^ledger on (\S+)$/.exec(line)?.[1]), running)
  return Object.assign(peer, { truth: async () => JSON.parse((await peer.ask({ path: '/bench' })).body) })
}

/** Polls every key of every client once per period, evenly; returns what it cost and what was stale. */
async function poll (proxy, node, { clients, keys, pollSeconds, warmSeconds, seconds }) {
  const reads = Array.from({ length: clients * keysPerClient }, (_, key) => readOfKey(key))
  const perTick = reads.length / (pollSeconds * 1000 / tickMs)
  const responses = []
  const pending = new Set()
  let next = 0
  const send = async (key, isMeasured) => {
    const sentAtMs = performance.timeOrigin + performance.now()
    // A server may close an idle connection in the moment in which a request takes it.
    const answer = await proxy.ask(reads[key]).catch(async () => await proxy.ask(reads[key]))
    if (!isMeasured) return
    const stamp = lineOf(answer, 'x-node-ledger-version')
    responses.push({ key, sentAtMs, ms: answer.ms, status: answer.status, value: valueIn(answer.body), stamp })
  }
  const runFor = async (forSeconds, isMeasured) => {
    const startedAt = performance.now()
    let sent = 0
    while (performance.now() - startedAt < forSeconds * 1000) {
      for (const due = Math.floor((performance.now() - startedAt) / tickMs * perTick); sent < due; sent++) {
        const sending = send(next++ % reads.length, isMeasured).finally(() => pending.delete(sending))
        pending.add(sending)
      }
      await pause(tickMs)
    }
  }
  await runFor(warmSeconds, false)
  // Reads of the cold pass are not reads of the measured time.
  await Promise.all(pending)
  const before = await node.truth()
  await runFor(seconds, true)
  await Promise.all(pending)
  const after = await node.truth()
  const model = new LedgerModel({ keys, seed })
  model.growTo(after.heads.at(-1).version)
  return { ...costOf(before.counts, after.counts, responses), ...judged(responses, after.heads, model) }
}

function costOf (before, after, responses) {
  const of = kind => after[kind] - before[kind]
  return {
    requests: responses.length,
    stateReads: of('read'),
    tailReads: of('tail'),
    upstream: of('read') + of('tail'),
    bytes: of('bytes'),
    times: timesOf(responses.map(({ ms }) => ms))
  }
}

/** Counts responses that no version allowed, and those older than the age that following allows. */
function judged (responses, heads, model) {
  let [wrong, stale] = [0, 0]
  for (const { key, sentAtMs, status, value, stamp } of responses) {
    if (status !== 200 || (stamp !== undefined && value !== model.lastTouch(key, Number(stamp)))) wrong++
    const least = heads.findLast(({ atMs }) => atMs <= sentAtMs - maxAgeMs - graceMs)
    if (least !== undefined && model.lastTouch(key, least.version) > value) stale++
  }
  return { wrong, stale }
}

function valueIn (body) {
  return Number(/"value":"(\d+)"/.exec(body)?.[1] ?? /\d+/.exec(body)?.[0])
}

function resultOf (results, { clients, seconds }) {
  const [base, followed] = ['varve', 'varve, follow on'].map(wanted => results.filter(({ name }) => name === wanted))
  const shares = followed.map(({ upstream }, at) => upstream / base[at].upstream)
  const wrong = followed.reduce((sum, each) => sum + each.wrong + each.stale, 0)
  return {
    figures: { results },
    tables: [{
      title:
        `${whole(clients)} clients, 3 keys of their own each, polled evenly; 4 keys written per transaction, Zipf ` +
        `1.1; ${seconds} s after warming up; stale: older than ${maxAgeMs} ms`,
      columns: ['', 'tx/s', 'reads', 'state reads', 'tail reads', 'MB', 'p50 ms', 'p99 ms', 'wrong', 'stale'],
      rows: results.map(({ name, rate, requests, stateReads, tailReads, bytes, times, wrong, stale }) => [
        name,
        rate,
        whole(requests),
        whole(stateReads),
        whole(tailReads),
        (bytes / 1e6).toFixed(1),
        times.median.toFixed(2),
        times.p99.toFixed(2),
        wrong,
        stale
      ])
    }],
    targets: [
      {
        what: 'upstream requests of varve with following over those without',
        wanted: 'at most 0.05',
        value: Math.max(...shares),
        text: shares.map(share => share.toFixed(3)).join(', '),
        reached: shares.every(share => share <= 0.05)
      },
      {
        what: 'responses with following that are wrong or older than allowed',
        wanted: '0',
        value: wrong,
        text: String(wrong),
        reached: wrong === 0
      }
    ]
  }
}
