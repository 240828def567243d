import { readFileSync } from 'node:fs'

/** Release number, and where the documentation of this program is. */
export interface ProgramInfo {
  readonly version: string
  readonly docs: string
}

/** Reads release number and home page from package.json. */
export function programInfo (): ProgramInfo {
  const { version, homepage } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  ) as { version: string, homepage: string }
  return { version, docs: new URL('docs/', homepage).href }
}

/** Reads the release number from package.json. */
export function versionOfProgram (): string {
  return programInfo().version
}
