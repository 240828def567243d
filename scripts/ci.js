import { checkCoverage } from './coverage.js'
import { runFast } from './fast.js'
import { say } from './ground.js'
import { bring, forLongerChecks, forTests } from './programs.js'
import { makeReady } from './ready.js'
import { fastCoverage, recordedResult } from './recorded.js'
import { groupsOf, singly, suites } from './suites.js'
import { close, jobs, runTap, sumOf } from './tap.js'

// Bounds the last group's wait more tightly than in the fast set, because these files take longer.
const mostSlowFiles = 3
// Durations that cover every fault and request kind once; `npm run nightly` runs longer.
const firstSeconds = { SOAK_SECONDS: '20', RUNS_FACTOR: '0.3', FUZZ_REQUESTS: '1000' }

close(await check())

async function check () {
  const faults = await makeReady(forTests)
  if (faults.length > 0) return { faults }
  // Installs the other programs beside the tests that need Redis only, since a package manager takes a minute.
  const bringing = bring(forLongerChecks).then(missing => ({ faults: missing === undefined ? [] : [missing] }))
  const { replicas, waiting, saturating, alone, waits, idle } = suites()

  const recorded = recordedResult()
  if (recorded !== undefined) {
    say(`the fast tests passed on exactly this tree: ${recorded.passed} assertions, not run again`)
  }
  const fast = recorded === undefined ? await runFast() : { count: recorded }

  // Runs all sets at once, since most of their time is waiting.
  say('running the tests of whole replicas and processes, and the longer checks ...')
  const replicaRun = runTap(groupsOf(replicas, mostSlowFiles), {
    jobs: jobs - 1,
    timeoutSeconds: 240,
    isCovered: true
  })
  const idleRun = runTap(singly(idle), { jobs: 1, timeoutSeconds: 600, isCovered: true })
  const coverage = Promise.all([replicaRun, idleRun]).then(async () => ({ faults: await checkCoverage(fastCoverage) }))
  async function runLonger () {
    if ((await bringing).faults.length > 0) return {}
    // Takes every place that the other set leaves, so that none stays empty: both sets take about as long.
    const options = { jobs: 1, after: [replicaRun, coverage], timeoutSeconds: 600, env: firstSeconds }
    return await runTap(groupsOf(waiting, mostSlowFiles), options)
  }
  const runs = await Promise.all([
    bringing,
    replicaRun,
    idleRun,
    coverage,
    runLonger()
  ])
  say('running the checks that saturate the machine, then those that measure ...')
  const run = async (files, most) => await runTap(singly(files), { jobs: most, timeoutSeconds: 600, env: firstSeconds })
  runs.push(await run(saturating, saturating.length))
  runs.push(...await Promise.all([run(alone, 1), run(waits, waits.length)]))
  return sumOf([fast, ...runs])
}
