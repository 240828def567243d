import { writeFileSync } from 'node:fs'
import { at, digestOf, run, say, textOf } from './ground.js'

// Inside node_modules, so that the record disappears together with what it speaks of.
const record = 'node_modules/.varve-installed'

/** Installs what the lock file says, unless that is what was installed last; answers what went wrong, if anything. */
export async function install () {
  const wanted = digestOf(['package-lock.json'])
  if (textOf(record) === wanted) return
  say('installing packages from the lock file ...')
  const { code, output } = await run([...npm(), 'ci', '--include=dev', '--no-audit', '--no-fund'])
  if (code !== 0) return `the packages could not be installed:\n${output}`
  writeFileSync(at(record), wanted)
}

/**
 * The command line of npm. Under npm its own file is known and needs no shell, which on Windows the bare name would.
 */
export function npm () {
  const file = process.env.npm_execpath
  return file?.endsWith('.js') ? [process.execPath, file] : ['npm']
}
