import { execFile } from 'node:child_process'

/** Exit code and output of a program. */
export interface ProgramResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end, whatever its exit code. */
export async function runProgram (
  command: string,
  args: readonly string[],
  options: { cwd?: string, env?: NodeJS.ProcessEnv } = {}
): Promise<ProgramResult> {
  return await new Promise(resolve => {
    execFile(command, args, { maxBuffer: 64 * 1024 * 1024, ...options }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 127, stdout, stderr })
    })
  })
}

/** Result of an audit: findings, none, or the reason why the registry was unavailable. */
export type NpmAudit = { readonly findings: readonly string[] } | { readonly unavailable: string }

/** Requests vulnerabilities of the packages in the lock file; a registry without response is no success. */
export async function auditPackages (cwd: string, ...more: readonly string[]): Promise<NpmAudit> {
  const { code, stdout, stderr } = await runProgram('npm', ['audit', '--json', ...more], { cwd })
  const report = parsed(stdout)
  const total = report?.metadata?.vulnerabilities?.total
  if (typeof total !== 'number' || report?.vulnerabilities === undefined) {
    return { unavailable: report?.message ?? (`${stdout}${stderr}`.trim() || `npm ended with ${code}`) }
  }
  return { findings: Object.entries(report.vulnerabilities).map(([name, { severity }]) => `${name}: ${severity}`) }
}

interface NpmReport {
  message?: string
  metadata?: { vulnerabilities?: { total?: number } }
  vulnerabilities?: Record<string, { severity: string }>
}

function parsed (text: string): NpmReport | undefined {
  try {
    return JSON.parse(text) as NpmReport
  } catch {
    return undefined
  }
}
