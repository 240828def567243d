import { existsSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { tsc } from './compile.js'
import { compileTests } from './compile-tests.js'
import { at, program, requireNode, root, run, say } from './ground.js'
import { install } from './install.js'
import { bring, forTests } from './programs.js'
import { deleteRecord, recordResult, treeDigest } from './recorded.js'
import { groupsOf, singly, suites } from './suites.js'
import { jobs, runTap } from './tap.js'

// Lint and type-check caches live in node_modules, so a new installation also clears them.
const cache = 'node_modules/.cache/varve'
// The longest fast file takes fifteen seconds of a processor, which a busy machine gives it late. A chosen file may be
// one of the slow ones.
const [fastSeconds, chosenSeconds] = [180, 600]

/** Runs `npm test`: lint, layout, types and fast tests, or only the chosen files. A complete run is recorded. */
export async function runFast (...chosen) {
  requireNode()
  // Both wait for the network, so they run beside each other.
  const [missing, programs] = await Promise.all([install(), bring(forTests)])
  if (missing !== undefined) return { faults: [missing] }
  const isWhole = chosen.length === 0
  const files = isWhole ? suites().fast : chosen.map(path => relative(root, resolve(path)).replaceAll('\\', '/'))
  const unknown = files.find(file => !file.endsWith('.test.ts') || !existsSync(at(file)))
  if (unknown !== undefined) return { faults: [`${unknown}: expected a file below test/ that ends in .test.ts`] }
  if (isWhole) deleteRecord()
  const tree = treeDigest()

  // The linter takes the longest, so it runs on beside the first tests, in the place of one.
  const linted = isWhole ? lint() : Promise.resolve()
  const [built, ...checks] = await Promise.all(
    isWhole ? [compileTests(), checkTypes(), layout()] : [compileTests()]
  )
  const isReady = programs === undefined && built === undefined

  const groups = isWhole ? groupsOf(files) : singly(files)
  if (isReady) say('running the tests ...')
  const timeoutSeconds = isWhole ? fastSeconds : chosenSeconds
  const options = { jobs: jobs - 1, after: [linted], isCovered: isWhole, timeoutSeconds }
  const tested = isReady ? runTap(groups, options) : {}
  const [{ count }, lintFault] = await Promise.all([tested, linted])
  const faults = [programs, built, ...checks, lintFault].filter(fault => fault !== undefined)
  if (isWhole && isReady) recordResult(tree, count, faults.length === 0 && count.failed.length === 0)
  return { count, faults }
}

async function checkTypes () {
  say('checking types ...')
  // More checkers than cores would check the same types more often.
  const { code, output } = await run(
    tsc('-p', 'test', '--checkers', '2', '--incremental', '--tsBuildInfoFile', `${cache}/types.tsbuildinfo`)
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
  if (code !== 0) return `the format check failed:\n${output}`
}
