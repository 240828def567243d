import { checkCoverage } from './coverage.js'
import { runFast } from './fast.js'
import { say } from './ground.js'
import { makeReady } from './ready.js'
import { fastCoverage, recordedResult } from './recorded.js'
import { suites } from './suites.js'
import { close, jobs, runTap, sumOf } from './tap.js'

// Long enough to reach every fault and every kind of request once; `npm run nightly` goes on for longer.
const firstSeconds = { SOAK_SECONDS: '30', RUNS_FACTOR: '0.4' }

close(await check())

async function check () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  const { whole, waiting, alone } = suites()

  const recorded = recordedResult()
  if (recorded !== undefined) {
    say(`the fast tests passed on this very tree: ${recorded.passed} assertions, not run again`)
  }
  const fast = recorded === undefined ? await runFast() : { count: recorded, code: 0 }

  say('running the tests of whole replicas and processes ...')
  const replicas = await runTap([
    '--coverage-report=json',
    '--allow-incomplete-coverage',
    '--timeout=120',
    jobs,
    ...whole
  ])
  const gaps = await checkCoverage(fastCoverage)
  say('running the longer checks ...')
  const long = await runTap(['--disable-coverage', '--timeout=600', jobs, ...waiting])
  say('running the checks that measure, one at a time ...')
  const measuring = await runTap(['--disable-coverage', '--timeout=600', '--jobs=1', ...alone], { env: firstSeconds })
  return sumOf([fast, replicas, { faults: gaps }, long, measuring])
}
