import { filesIn } from './compile.js'
import { checkCoverage, forgetCoverage } from './coverage.js'
import { say } from './ground.js'
import { makeReady } from './ready.js'
import { close, jobs, runTap } from './tap.js'

close(await check())

async function check () {
  const faults = await makeReady()
  if (faults.length > 0) return { faults }

  const files = filesIn('test').filter(file => file.endsWith('.test.ts'))
  const isLong = file => file.startsWith('test/long/')
  say('running the tests, those of whole replicas and processes among them, to see what they leave out ...')
  forgetCoverage()
  const whole = await runTap('--coverage-report=json', '--allow-incomplete-coverage', '--timeout=120', jobs, ...files.filter(file => !isLong(file)))
  const gaps = checkCoverage()
  say('running the longer checks ...')
  // One at a time: they measure, and must not take each other's time.
  const long = await runTap('--disable-coverage', '--timeout=600', '--jobs=1', ...files.filter(isLong))
  return { count: sumOf(whole.count, long.count), code: whole.code || long.code, faults: gaps }
}

function sumOf (a, b) {
  return { passed: a.passed + b.passed, failed: [...a.failed, ...b.failed], skipped: [...a.skipped, ...b.skipped] }
}
