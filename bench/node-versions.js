// Compares varve under two versions of Node.js: `npm run build && node bench/node-versions.js NODE NODE [ROUNDS]`, each
// NODE the path of a program. Needs wrk. On a shared machine read the least processor time: other work adds to it.
import { readFileSync } from 'node:fs'
import { giveUpOn, run } from '../scripts/ground.js'
import { Bench } from './support/bench.js'
import { coresHere, pinThisProcess } from './support/cores.js'
import { readOf, startOrigin } from './support/origin.js'
import { processorTimeOf } from './support/processor-time.js'
import { median, ratioOf } from './support/statistics.js'
import { spread, tableOf, whole } from './support/table.js'
import { lookForTools } from './support/tools.js'
import { startVarve } from './support/varve.js'
import { loadMany, loadOne } from './support/wrk.js'

const [first, second, rounds = '25'] = process.argv.slice(2)
const tools = await lookForTools()
if (second === undefined || tools.paths.wrk === undefined) giveUpOn('expected two Node.js programs, and wrk on PATH')
const cores = await coresHere(tools.paths.taskset)
if (cores !== undefined) await pinThisProcess(tools.paths.taskset, cores.rest)
const bench = new Bench({}, tools, cores)

// Many short rounds, so that some meet a quiet moment.
const seconds = 1
const connections = 32
// More than one round can send, so that no read of a round is repeated.
const missesPerRound = 20_000
let nextVersion = 1_000_000

const workloads = [
  { name: 'a hot hit, 0.5 KiB', load: peer => loadOne(bench, peer.url, hot(512).path, { connections, seconds }) },
  { name: 'a hot hit, 4 KiB', load: peer => loadOne(bench, peer.url, hot(4096).path, { connections, seconds }) },
  { name: 'a miss, 0.5 KiB', load: peer => loadMany(bench, peer.url, freshReads(), { connections, seconds }) }
]

const origin = await startOrigin(bench)
const peers = []
for (const node of [first, second]) {
  const { output } = await run([node, '--version'])
  const peer = await startVarve(bench, origin.url, { node })
  peers.push({ name: `Node.js ${output.trim()}`, peer })
  // Compiles the hot paths before anything is measured.
  for (const { load } of workloads) await load(peer)
}
const rows = []
for (const { name, load } of workloads) {
  const figures = peers.map(() => ({ rates: [], costs: [] }))
  for (let round = 0; round < Number(rounds); round++) {
    // Every other round reverses the order, so that drift affects both.
    for (const at of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const { pid } = peers[at].peer
      const before = processorTimeOf(pid)
      const { requests, perSecond } = await load(peers[at].peer)
      figures[at].rates.push(perSecond)
      figures[at].costs.push((processorTimeOf(pid) - before) / requests)
    }
    bench.say(`${name}: round ${round + 1} of ${rounds}`)
  }
  const [a, b] = figures
  rows.push([
    name,
    ...figures.map(({ rates, costs }) =>
      `${whole(median(rates))}/s, ${median(costs).toFixed(1)} us, least ${Math.min(...costs).toFixed(1)}`
    ),
    spread(ratioOf(b.rates, a.rates)),
    spread(ratioOf(b.costs, a.costs)),
    (Math.min(...b.costs) / Math.min(...a.costs)).toFixed(2)
  ])
}
const columns = ['', ...peers.map(({ name }) => name), 'ratio of rates', 'of processor time', 'of the least']
console.log(tableOf(columns, rows))
for (const { name, peer } of peers) console.log(`${name}: ${residentMb(peer.pid)} MB resident at the end`)
process.exit()

function hot (bytes) {
  return readOf(bytes, 1000)
}

function freshReads () {
  nextVersion += missesPerRound
  return Array.from({ length: missesPerRound }, (_, at) => readOf(512, nextVersion + at))
}

function residentMb (pid) {
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024)
}
