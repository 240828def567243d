// Measures from spawning the program to the first correct response; a client polls meanwhile.
import { once } from 'node:events'
import { request } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { readOf, startOrigin } from '../support/origin.js'
import { freePort } from '../support/ports.js'
import { middleOf } from '../support/statistics.js'
import { varveCommand } from '../support/varve.js'

export const name = 'start-up'
export const title = 'from the command to the first response'
export const needs = []

const mostMs = 600
const triesEveryMs = 3
const timeoutMs = 20_000
const read = readOf(1024, 1000)
// Baseline: the smallest HTTP server that Node.js can run, measured on the same machine.
const leastProgram = port => [
  process.execPath,
  '-e',
  `require('node:http').createServer((_, response) => response.end('[]')).listen(${port}, '127.0.0.1')`
]

/** Starts each program repeatedly: varve on all cores, varve on one core, and the baseline. */
export async function run (bench) {
  const origin = await startOrigin(bench)
  const { body: expected } = await origin.ask(read)
  const ways = [
    {
      label: 'varve',
      part: 'all',
      command: port => varveCommand(origin.url, { listen: `127.0.0.1:${port}` }),
      expected,
      list: []
    },
    {
      label: 'varve, on one core',
      part: 'server',
      command: port => varveCommand(origin.url, { listen: `127.0.0.1:${port}` }),
      expected,
      list: []
    },
    {
      label: 'a node:http server of one line',
      part: 'all',
      command: leastProgram,
      expected: Buffer.from('[]'),
      list: []
    }
  ]
  // Two starts per round, since one takes less than a second.
  const starts = bench.isSmoke ? 1 : bench.rounds * 2
  for (let start = 0; start < starts; start++) {
    bench.say(`start ${start + 1} of ${starts}`)
    for (const way of ways) way.list.push(await timeToAnswer(bench, way))
  }
  await origin.stop()
  return resultOf(ways)
}

async function timeToAnswer ({ programs }, { part, command, expected }) {
  const port = await freePort()
  const started = performance.now()
  const program = await programs.start('the program', command(port), { part })
  while (true) {
    const body = await attempt(port)
    if (body?.equals(expected)) break
    if (performance.now() - started > timeoutMs) throw new Error(`no correct response within ${timeoutMs} ms`)
    await pause(triesEveryMs)
  }
  const tookMs = performance.now() - started
  await program.stop()
  return tookMs
}

/** Returns the body of a 200; undefined while the program does not listen or is not ready. */
async function attempt (port) {
  const asked = request({ host: '127.0.0.1', port, path: read.path, agent: false })
  asked.end()
  try {
    const [response] = await once(asked, 'response')
    const chunks = await response.toArray()
    return response.statusCode === 200 ? Buffer.concat(chunks) : undefined
  } catch {
    return undefined
  }
}

function resultOf (ways) {
  const summaries = ways.map(({ label, list }) => ({ label, list, ...middleOf(list) }))
  const text = ({ median, least, most }) => `${Math.round(median)} (${Math.round(least)}-${Math.round(most)})`
  return {
    figures: summaries,
    tables: [{
      title: `${summaries[0].list.length} starts each, in ms: median (least-most)`,
      columns: ['', 'to the first response'],
      rows: summaries.map(way => [way.label, text(way)])
    }],
    targets: summaries.slice(0, 2).map(way => ({
      what: `first response, ${way.label}`,
      wanted: `at most ${mostMs} ms`,
      value: way.median,
      text: text(way),
      reached: way.median <= mostMs
    }))
  }
}
