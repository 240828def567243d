import { checkCoverage } from './coverage.js'
import { runFast } from './fast.js'
import { say } from './ground.js'
import { bring, forLongerChecks, forTests } from './programs.js'
import { makeReady } from './ready.js'
import { fastCoverage, recordedResult } from './recorded.js'
import { oneByOne, Slots } from './slots.js'
import { groupsOf, singly, suites } from './suites.js'
import { close, runTap, sumOf } from './tap.js'

// Bounds a group's wait more tightly than in the fast set, because these files take longer.
const mostSlowFiles = 3
// Durations that cover every fault and request kind once; `npm run nightly` runs longer.
const firstSeconds = { SOAK_SECONDS: '20', RUNS_FACTOR: '0.3', FUZZ_REQUESTS: '1000' }

close(await check())

async function check () {
  const faults = await makeReady(forTests)
  if (faults.length > 0) return { faults }
  // Installs the other programs beside the tests that need Redis only, since a package manager takes a minute.
  const bringing = bring(forLongerChecks).then(missing => ({ faults: missing === undefined ? [] : [missing] }))
  const { replicas, waiting, saturating, alone, waits } = suites()

  const recorded = recordedResult()
  if (recorded !== undefined) {
    say(`the fast tests passed on exactly this tree: ${recorded.passed} assertions, not run again`)
  }
  const fast = recorded === undefined ? await runFast() : { count: recorded }

  say('running the tests of whole replicas and processes, and the longer checks ...')
  const slots = new Slots()
  async function runWaiting () {
    if ((await bringing).faults.length > 0) return {}
    const groups = [...groupsOf(waiting, mostSlowFiles), ...singly(saturating)]
    return await runTap(groups, { slots, timeoutSeconds: 600, env: firstSeconds })
  }
  const runs = await Promise.all([bringing, runReplicas(replicas, slots), runWaiting()])
  say('running the checks that measure ...')
  runs.push(
    ...await Promise.all(
      [alone, waits].map(async files => await runTap(singly(files), { slots: oneByOne(), timeoutSeconds: 600 }))
    )
  )
  return sumOf([fast, ...runs])
}

/** Runs files that count for the coverage, then checks it. */
async function runReplicas (files, slots) {
  const { count } = await runTap(groupsOf(files, mostSlowFiles), { slots, timeoutSeconds: 240, isCovered: true })
  return { count, faults: await checkCoverage(fastCoverage) }
}
