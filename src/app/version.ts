import { readFileSync } from 'node:fs'

/** Reads the release number from package.json. */
export function versionOfProgram (): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}
