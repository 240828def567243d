import { existsSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { compile } from './compile.js'
import { at, program, requireNode, root, run, say } from './ground.js'
import { install } from './install.js'
import { bring, forTests } from './programs.js'
import { deleteRecord, recordResult, treeDigest } from './recorded.js'
import { groupsOf, singly, suites } from './suites.js'
import { runTap } from './tap.js'

// Lint and type-check caches live in node_modules, so a new installation also clears them.
const cache = 'node_modules/.cache/varve'

/** Runs `npm test`: lint, layout, types and fast tests, or only the chosen files. A complete run is recorded. */
export async function runFast (...chosen) {
  requireNode()
  const missing = await install()
  if (missing !== undefined) return { faults: [missing] }
  const isWhole = chosen.length === 0
  const files = isWhole ? suites().fast : chosen.map(path => relative(root, resolve(path)).replaceAll('\\', '/'))
  const unknown = files.find(file => !file.endsWith('.test.ts') || !existsSync(at(file)))
  if (unknown !== undefined) return { faults: [`${unknown}: expected a file below test/ that ends in .test.ts`] }
  if (isWhole) deleteRecord()
  const tree = treeDigest()

  // Runs checks in parallel, one core each, and before the tests, since some tests measure time.
  const [programs, built, ...checks] = await Promise.all(
    isWhole
      ? [bring(forTests), compileAndPrint(), checkTypes(), lint(), layout()]
      : [bring(forTests), compile()]
  )
  const faults = [programs, built, ...checks].filter(fault => fault !== undefined)
  if (programs !== undefined || built !== undefined) return { faults }

  say('running the tests ...')
  const { count } = await runTap(isWhole ? groupsOf(files) : singly(files), { isCovered: isWhole })
  if (isWhole) recordResult(tree, count, faults.length === 0 && count.failed.length === 0)
  return { count, faults }
}

async function compileAndPrint () {
  const fault = await compile()
  if (fault !== undefined) return fault
  // Imports the compiler late: a fresh clone has no packages before the installation.
  const { printAll } = await import('./printed.js')
  printAll()
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
  if (code !== 0) return `the format check failed:\n${output}`
}
