import { say } from './ground.js'
import { makeReady } from './ready.js'
import { singly } from './suites.js'
import { close, runTap } from './tap.js'

close(await follow())

/** Runs the commands of README and docs/ in a fresh clone, as readers would. */
async function follow () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  say('running every block of README.md and docs/ in a fresh clone of the last commit ...')
  return await runTap(singly(['test/readme.slow.test.ts']), { timeoutSeconds: 600 })
}
