import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { at, digestOf, program, root, run, say, textOf } from './ground.js'

const stamp = 'dist/.varve-built'

/** The compiled program. */
export const cli = 'dist/cli.js'

/** Every file below a folder of the checkout, in the same order on every machine. */
export function filesIn (folder) {
  if (!existsSync(at(folder))) return []
  return readdirSync(at(folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => relative(root, join(entry.parentPath ?? entry.path, entry.name)).replaceAll('\\', '/'))
    .sort()
}

/** Compiles the program, unless exactly these sources were compiled last; answers what went wrong, if anything. */
export async function compile () {
  if (textOf(stamp) === digestOf(inputs()) && existsSync(at(cli))) return
  say('building ...')
  return await compileAfresh()
}

/** Compiles into an empty folder, so that no file of a source that is gone stays behind. */
export async function compileAfresh () {
  const wanted = digestOf(inputs())
  rmSync(at('dist'), { recursive: true, force: true })
  // The embedded node first: the program takes its types from what this writes, and nothing else of it.
  for (const project of ['sandbox', '.']) {
    const { code, output } = await run(program('typescript/bin/tsc', '-p', project))
    if (code !== 0) return `the build failed:\n${output}`
  }
  // The page for people is what it is: plain files, which nothing compiles.
  for (const file of filesIn('src').filter(name => !name.endsWith('.ts'))) {
    const copy = at(file.replace(/^src/, 'dist'))
    mkdirSync(dirname(copy), { recursive: true })
    copyFileSync(at(file), copy)
  }
  // Written last: a build that was cut short has no stamp and is done again.
  writeFileSync(at(stamp), wanted)
}

function inputs () {
  return [...filesIn('src'), ...filesIn('sandbox'), 'tsconfig.json', 'package-lock.json']
}
