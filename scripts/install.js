import { writeFileSync } from 'node:fs'
import { at, digestOf, run, say, textOf } from './ground.js'

// Stored in node_modules, so that deleting the packages also deletes the record.
const record = 'node_modules/.varve-installed'

/** Installs packages unless the lock file is unchanged since the last installation; returns the error, if any. */
export async function install () {
  const wanted = digestOf(['package-lock.json'])
  if (textOf(record) === wanted) return
  say('installing packages from the lock file ...')
  const { code, output } = await run([...npm(), 'ci', '--include=dev', '--no-audit', '--no-fund'])
  if (code !== 0) return `the packages could not be installed:\n${output}`
  writeFileSync(at(record), wanted)
}

/** Returns the command line of npm; `npm_execpath` avoids the shell that Windows needs for the bare name. */
export function npm () {
  const file = process.env.npm_execpath
  return file?.endsWith('.js') ? [process.execPath, file] : ['npm']
}
