import { compile } from './compile.js'
import { program, requireNode, run, say } from './ground.js'
import { install } from './install.js'
import { bring, forTests } from './programs.js'
import { close, jobs, runTap } from './tap.js'

const chosen = process.argv.slice(2)
// What was found right is not looked at again while it is the same; it goes with the packages that looked at it.
const cache = 'node_modules/.cache/varve'

requireNode()
close(await test())

async function test () {
  const missing = await install()
  if (missing !== undefined) return { faults: [missing] }

  // Side by side, since each keeps one core busy; before the tests, since some of those watch the clock.
  const [programs, built, ...checks] = await Promise.all(
    chosen.length > 0 ? [bring(forTests), compile()] : [bring(forTests), ...typesAndBuild(), lint()])
  const faults = [programs, built, ...checks].filter(fault => fault !== undefined)
  if (programs !== undefined || built !== undefined) return { faults }

  say('running the tests ...')
  return { ...await runTap('--disable-coverage', jobs, ...chosen), faults }
}

// One after the other, so that one mistake in the program is not told twice.
function typesAndBuild () {
  const built = compile()
  return [built, built.then(fault => fault === undefined ? checkTypes() : undefined)]
}

async function checkTypes () {
  say('checking types ...')
  const { code, output } = await run(program('typescript/bin/tsc', '-p', 'test', '--incremental', '--tsBuildInfoFile', `${cache}/types.tsbuildinfo`))
  if (code !== 0) return `the type check failed:\n${output}`
}

async function lint () {
  say('linting ...')
  const { code, output } = await run(program('eslint/bin/eslint.js', '.', '--cache', '--cache-strategy', 'content', '--cache-location', `${cache}/lint`))
  if (code !== 0) return `the lint failed:\n${output}`
}
