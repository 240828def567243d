import { checkCoverage } from './coverage.js'
import { runFast } from './fast.js'
import { say } from './ground.js'
import { makeReady } from './ready.js'
import { fastCoverage, recordedResult } from './recorded.js'
import { suites } from './suites.js'
import { close, runTap, sumOf } from './tap.js'

// Durations that cover every fault and request kind once; `npm run nightly` runs longer.
const firstSeconds = { SOAK_SECONDS: '20', RUNS_FACTOR: '0.4' }

close(await check())

async function check () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  const { whole, waiting, alone } = suites()

  const recorded = recordedResult()
  if (recorded !== undefined) {
    say(`the fast tests passed on exactly this tree: ${recorded.passed} assertions, not run again`)
  }
  const fast = recorded === undefined ? await runFast() : { count: recorded }

  say('running the tests of whole replicas and processes ...')
  const replicas = await runTap(whole, { timeoutSeconds: 120, isCovered: true })
  const gaps = await checkCoverage(fastCoverage)
  say('running the longer checks ...')
  const long = await runTap(waiting, { timeoutSeconds: 600 })
  say('running the checks that measure, one at a time ...')
  const measuring = await runTap(alone, { jobs: 1, timeoutSeconds: 600, env: firstSeconds })
  return sumOf([fast, replicas, { faults: gaps }, long, measuring])
}
