import { say } from './ground.js'
import { makeReady } from './ready.js'
import { close, runTap } from './tap.js'

close(await follow())

/** Follows the README and the pages of docs/ from a fresh clone, as their readers do. */
async function follow () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }
  say('running every block of README.md and docs/ in a fresh clone of what is committed ...')
  return await runTap(['--disable-coverage', '--timeout=600', '--jobs=1', 'test/long/readme.test.ts'])
}
