import { execFile } from 'node:child_process'

/** How a program has ended, and what it said. */
export interface Ended {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs a program to its end, however that is. */
export async function ended (
  command: string,
  args: readonly string[],
  options: { cwd?: string, env?: NodeJS.ProcessEnv } = {}
): Promise<Ended> {
  return await new Promise(resolve => {
    execFile(command, args, { maxBuffer: 64 * 1024 * 1024, ...options }, (error, out, err) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 127, out, err })
    })
  })
}

/** What the registry knows of the packages: findings, none, or nothing because it could not be asked. */
export type Audited = { readonly findings: readonly string[] } | { readonly notAsked: string }

/**
 * Asks the registry whether anything is known against the packages that the lock file names; a registry that gives no
 * answer is no good news.
 */
export async function audit (cwd: string, ...more: readonly string[]): Promise<Audited> {
  const { code, out, err } = await ended('npm', ['audit', '--json', ...more], { cwd })
  const told = parsed(out)
  const total = told?.metadata?.vulnerabilities?.total
  if (typeof total !== 'number' || told?.vulnerabilities === undefined) {
    return { notAsked: told?.message ?? (`${out}${err}`.trim() || `npm ended with ${code}`) }
  }
  return { findings: Object.entries(told.vulnerabilities).map(([name, { severity }]) => `${name}: ${severity}`) }
}

interface Told {
  message?: string
  metadata?: { vulnerabilities?: { total?: number } }
  vulnerabilities?: Record<string, { severity: string }>
}

function parsed (text: string): Told | undefined {
  try {
    return JSON.parse(text) as Told
  } catch {
    return undefined
  }
}
