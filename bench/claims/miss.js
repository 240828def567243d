// Measures the latency that a proxy adds to a read that is not cached.
import { lineOf } from '../support/timed-request.js'
import { startNginx } from '../support/nginx.js'
import { readOf, startOrigin } from '../support/origin.js'
import { mustBeRight } from '../support/check-response.js'
import { middleOf, timesOf } from '../support/statistics.js'
import { times } from '../support/table.js'
import { startVarve } from '../support/varve.js'

export const name = 'miss'
export const title = 'the time that a miss adds to an upstream read'
export const needs = []

const bytes = 4096
const missed = {
  varve: ['cache-status', 'varve; fwd=uri-miss; fwd-status=200; stored'],
  nginx: ['x-cache-status', 'MISS']
}

/** Reads one version at a time, directly and through each proxy, over persistent connections. */
export async function run (bench) {
  const samples = bench.isSmoke ? 100 : 4000
  const origin = await startOrigin(bench)
  const proxies = [await startVarve(bench, origin.url), await startNginx(bench, origin.url)].filter(peer =>
    peer !== undefined
  )
  const peers = [origin, ...proxies]
  // Versions increase and never repeat, so every read is a miss; the first round is a warm-up.
  let version = 0
  if (!bench.isSmoke) await roundOf(peers, samples, () => ++version)
  const rounds = []
  for (let round = 0; round < bench.rounds; round++) {
    bench.say(`round ${round + 1} of ${bench.rounds}: ${samples} reads each`)
    const before = await origin.reads()
    const lists = await roundOf(peers, samples, () => ++version)
    const asked = await origin.reads() - before
    if (asked !== samples * peers.length) {
      throw new Error(`the upstream got ${asked} reads, expected ${samples} from each of ${peers.length} servers`)
    }
    rounds.push(Object.fromEntries(Object.entries(lists).map(([peer, list]) => [peer, timesOf(list)])))
  }
  await Promise.all(peers.map(peer => peer.stop()))
  return resultOf(rounds, proxies.map(peer => peer.name))
}

async function roundOf (peers, samples, nextVersion) {
  const lists = Object.fromEntries(peers.map(peer => [peer.name, []]))
  for (let sample = 0; sample < samples; sample++) {
    const request = readOf(bytes, nextVersion())
    const answers = []
    // Rotates the order, so that each server is first equally often.
    for (let turn = 0; turn < peers.length; turn++) {
      const peer = peers[(sample + turn) % peers.length]
      const answer = await peer.ask(request)
      lists[peer.name].push(answer.ms)
      answers.push([peer, answer])
    }
    check(request, answers)
  }
  return lists
}

function check (request, answers) {
  const [, { body: expected }] = answers.find(([{ name }]) => name === 'direct')
  for (const [peer, answer] of answers) {
    mustBeRight(peer, request, answer, expected, { hit: false })
    const [line, value] = missed[peer.name] ?? []
    if (line !== undefined && lineOf(answer, line) !== value) {
      throw new Error(`${peer.name}: ${line} was ${lineOf(answer, line)}, not ${value}`)
    }
  }
}

function resultOf (rounds, proxies) {
  const added = Object.fromEntries(
    proxies.map(peer => [
      peer,
      Object.fromEntries(
        ['median', 'p99'].map(what => [what, middleOf(rounds.map(round => round[peer][what] - round.direct[what]))])
      )
    ])
  )
  const row = (
    label,
    valueOf
  ) => [
    label,
    times(middleOf(rounds.map(round => valueOf(round).median))),
    times(middleOf(rounds.map(round => valueOf(round).p99)))
  ]
  return {
    figures: { bytes, rounds, added },
    tables: [{
      title: 'one read at a time, body of 4 KiB, in ms: median of the rounds (least-most)',
      columns: ['', 'median', 'p99'],
      rows: [
        ...['direct', ...proxies].map(peer => row(peer, round => round[peer])),
        ...proxies.map(peer => [`${peer} adds`, times(added[peer].median), times(added[peer].p99)])
      ]
    }, {
      title: 'each round, in ms',
      columns: ['round', ...['direct', ...proxies].flatMap(peer => [`${peer} median`, 'p99'])],
      rows: rounds.map((
        round,
        at
      ) => [
        at + 1,
        ...['direct', ...proxies].flatMap(peer => [round[peer].median.toFixed(2), round[peer].p99.toFixed(2)])
      ])
    }],
    targets: [['median', 0.5], ['p99', 1]].map(([what, most]) => ({
      what: `a miss adds, ${what}`,
      wanted: `at most ${most} ms`,
      value: added.varve[what].median,
      text: times(added.varve[what]),
      reached: added.varve[what].median <= most
    }))
  }
}
