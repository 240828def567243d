import { filesIn } from './compile.js'
import { say } from './ground.js'
import { makeReady } from './ready.js'
import { close, runTap } from './tap.js'

close(await check())

async function check () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }

  const files = filesIn('test/long').filter(file => file.endsWith('.test.ts'))
  say(files.length === 0 ? 'there are no longer checks in test/long' : 'running the longer checks ...')
  if (files.length === 0) return {}
  // One at a time: they measure, and must not take each other's time.
  return await runTap('--disable-coverage', '--timeout=600', '--jobs=1', ...files)
}
