import { readFileSync } from 'node:fs'

/** The release of this program, as its package says. */
export function versionOfProgram (): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}
