import { existsSync } from 'node:fs'
import { compile } from './compile.js'
import { at, program, requireNode, run, say } from './ground.js'
import { install } from './install.js'
import { bring, forTests } from './programs.js'
import { forgetResult, recordResult, treeDigest } from './recorded.js'
import { suites } from './suites.js'
import { jobs, runTap } from './tap.js'

// A file that passed lint or the type check is skipped while it is the same; the record goes with the packages.
const cache = 'node_modules/.cache/varve'

/**
 * Runs what `npm test` runs: lint, layout, types, fast tests, or the chosen files alone. A whole run that passes is
 * recorded.
 */
export async function runFast (...chosen) {
  requireNode()
  const missing = await install()
  if (missing !== undefined) return { faults: [missing] }
  const isWhole = chosen.length === 0
  if (isWhole) forgetResult()
  const tree = treeDigest()

  // In parallel, since each keeps one core busy; before the tests, since some of those measure time.
  const [programs, built, ...checks] = await Promise.all(
    isWhole
      ? [bring(forTests), ...typesAndBuild(), lint(), layout(), buildRunner()]
      : [bring(forTests), compile()]
  )
  const faults = [programs, built, ...checks].filter(fault => fault !== undefined)
  if (programs !== undefined || built !== undefined) return { faults }

  say('running the tests ...')
  if (!isWhole) return { ...await runTap(['--disable-coverage', jobs, ...chosen]), faults }
  const { count, code } = await runTap([
    '--coverage-report=json',
    '--allow-incomplete-coverage',
    jobs,
    ...suites().fast
  ])
  recordResult(tree, count, faults.length === 0 && code === 0 && count.failed.length === 0)
  return { count, code, faults }
}

// One after the other, so that one mistake in the program is not reported twice.
function typesAndBuild () {
  const built = compile()
  return [built, built.then(fault => fault === undefined ? checkTypes() : undefined)]
}

// tap drops the plugins that package.json excludes in its first run only, which starts every file the slow way.
async function buildRunner () {
  if (existsSync(at('.tap/plugins'))) return
  const { code, output } = await run(program('tap/dist/esm/run.mjs', 'build'))
  if (code !== 0) return `the test runner could not be built:\n${output}`
}

async function checkTypes () {
  say('checking types ...')
  const { code, output } = await run(
    program('typescript/bin/tsc', '-p', 'test', '--incremental', '--tsBuildInfoFile', `${cache}/types.tsbuildinfo`)
  )
  if (code !== 0) return `the type check failed:\n${output}`
}

async function lint () {
  say('linting ...')
  const { code, output } = await run(
    program('eslint/bin/eslint.js', '.', '--cache', '--cache-strategy', 'content', '--cache-location', `${cache}/lint`)
  )
  if (code !== 0) return `the lint failed:\n${output}`
}

async function layout () {
  const { code, output } = await run([process.execPath, at('scripts/format.js'), '--check'])
  if (code !== 0) return `the layout is not the formatter's:\n${output}`
}
