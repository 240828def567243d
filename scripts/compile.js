import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { at, digestOf, program, root, run, say, textOf } from './ground.js'

const stamp = 'dist/.varve-built'
// Skips the type check, which `npm test` runs once for all folders, and reads no imported file.
const options = [
  ...['--target', 'es2023', '--module', 'esnext', '--isolatedModules', '--sourceMap'],
  ...['--ignoreConfig', '--noCheck', '--noResolve', '--types', '']
]

/** Path of the compiled program. */
export const cli = 'dist/cli.js'

/** Lists every file below a folder, sorted so that digests are equal on every machine. */
export function filesIn (folder) {
  if (!existsSync(at(folder))) return []
  return readdirSync(at(folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(root, join(entry.parentPath ?? entry.path, entry.name)).replaceAll('\\', '/'))
    .sort()
}

/** Compiles the program unless its sources are unchanged since the last build; returns the error, if any. */
export async function compile () {
  if (textOf(stamp) === digestOf(inputs()) && existsSync(at(cli))) return
  say('building ...')
  return await recompile()
}

/** Compiles into an empty folder, so that no output of a deleted source remains; returns the error, if any. */
export async function recompile () {
  const wanted = digestOf(inputs())
  rmSync(at('dist'), { recursive: true, force: true })
  const fault = await emit('src', 'dist') ?? await emit('sandbox', 'dist/sandbox')
  if (fault !== undefined) return fault
  // Copies the status page, which consists of static files without a compile step.
  for (const file of sourcesIn('src').filter(name => !name.endsWith('.ts'))) {
    const copy = at(file.replace(/^src/, 'dist'))
    mkdirSync(dirname(copy), { recursive: true })
    copyFileSync(at(file), copy)
  }
  // Writes the stamp last, so that an interrupted build runs again.
  writeFileSync(at(stamp), wanted)
}

/** Writes the JavaScript of a folder's TypeScript, with source maps; returns the error, if any. */
export async function emit (folder, output, files = filesIn(folder).filter(name => name.endsWith('.ts'))) {
  const { code, output: printed } = await run(tsc(...options, '--rootDir', folder, '--outDir', output, ...files))
  if (code !== 0) return `the build failed:\n${printed}`
}

/** Returns the command line of the native compiler; the other, in JavaScript, has the interface for programs. */
export function tsc (...args) {
  return program('typescript-native/bin/tsc', ...args)
}

function inputs () {
  return [...sourcesIn('src'), ...sourcesIn('sandbox'), 'scripts/compile.js', 'package-lock.json']
}

/** Leaves out the folder pages, which are no part of the program. */
function sourcesIn (folder) {
  return filesIn(folder).filter(name => !name.endsWith('.md'))
}
