// Implements `npm run bench`: builds varve, measures each claim beside other servers and prints ratios of medians with
// their spread.
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { compile } from '../scripts/compile.js'
import { at, giveUpOn, requireNode, say } from '../scripts/ground.js'
import * as burst from './claims/burst.js'
import * as diskHit from './claims/disk-hit.js'
import * as follow from './claims/follow.js'
import * as forward from './claims/forward.js'
import * as hotKey from './claims/hot-key.js'
import * as memory from './claims/memory.js'
import * as miss from './claims/miss.js'
import * as redisHit from './claims/redis-hit.js'
import * as restart from './claims/restart.js'
import * as startUp from './claims/start-up.js'
import * as tls from './claims/tls.js'
import * as trace from './claims/trace.js'
import * as workers from './claims/workers.js'
import { readArguments } from './support/arguments.js'
import { Bench } from './support/bench.js'
import { coresHere, pinThisProcess } from './support/cores.js'
import { machineHere } from './support/machine.js'
import { tableOf } from './support/table.js'
import { lookForTools } from './support/tools.js'

// Excludes sharing.js, which compares varve with itself and has no target.
const claims = [hotKey, tls, trace, miss, forward, redisHit, diskHit, restart, burst, follow, memory, workers, startUp]

const asked = readArguments(process.argv.slice(2), claims.map(({ name }) => name))
if (asked.fault !== undefined) {
  say(asked.fault)
  process.exit(2)
}
requireNode()
if (!existsSync(at('node_modules/typescript'))) giveUpOn('the packages are not installed; run `npm ci` first')
giveUpOn(await compile())

const tools = await lookForTools()
for (const sentence of tools.missing) say(sentence)
const cores = await coresHere(tools.paths.taskset)
if (cores === undefined) {
  say('nothing is pinned to a core: load and servers share cores, so ratios are less reliable')
} else await pinThisProcess(tools.paths.taskset, cores.rest)

const results = await measureAll(new Bench(asked, tools, cores))
const measured = results.filter(({ figures }) => figures !== undefined)
if (asked.isSmoke) say('smoke run: responses were correct unless reported above; its figures mean nothing')
else if (measured.length > 0) {
  console.log(targetsOf(results))
  await keep(results)
}
if (measured.length === 0) say('nothing was measured')
process.exit(measured.length === 0 || results.some(({ fault }) => fault !== undefined) ? 1 : 0)

async function measureAll (bench) {
  const results = []
  for (const { name, title, needs, run } of claims.filter(({ name }) => asked.claims.includes(name))) {
    // Smoke runs check responses, not speed, so they do not need wrk.
    const lacking = needs.filter(tool => tools.paths[tool] === undefined && !(asked.isSmoke && tool === 'wrk'))
    if (lacking.length > 0) {
      say(`${name} is skipped: it needs ${lacking.join(' and ')}`)
      results.push({ name, title, leftOut: lacking, targets: [] })
      continue
    }
    say(`${name}: ${title} ...`)
    try {
      const result = await run(bench)
      console.log(`\n## ${name}: ${title}`)
      for (const { title, columns, rows } of result.tables) console.log(`\n${title}:\n\n${tableOf(columns, rows)}`)
      results.push({ name, title, ...result })
    } catch (error) {
      say(`${name} failed: ${error.stack}`)
      results.push({ name, title, fault: error.message, targets: [] })
    }
    await bench.tidy()
  }
  return results
}

function targetsOf (results) {
  const rows = results.flatMap(({ name, targets }) =>
    targets.map(({ what, wanted, text, reached }) => [name, what, wanted, text, reached ? 'yes' : 'no'])
  )
  return rows.length === 0 ? '' : `\n## targets\n\n${tableOf(['claim', 'what', 'wanted', 'measured', 'reached'], rows)}`
}

async function keep (results) {
  const file = 'bench/results.json'
  const kept = results.map(({ tables, ...rest }) => rest)
  await writeFile(
    at(file),
    `${
      JSON.stringify(
        {
          measuredAt: new Date().toISOString(),
          rounds: asked.rounds,
          seconds: asked.seconds,
          machine: machineHere(tools, cores),
          claims: kept
        },
        undefined,
        2
      )
    }\n`
  )
  say(`all figures are in ${file}`)
}
