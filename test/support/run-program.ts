import { execFile, type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Test } from 'tap'

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

const root = join(import.meta.dirname, '../..')
const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  name: string,
  version: string
}

/** Copies the checkout into a folder of its own, with the same installed packages. */
export function copyCheckout (dir: string): string {
  mkdirSync(dir)
  for (const name of readdirSync(root)) {
    if (!['node_modules', '.git', '.tap', 'dist', 'coverage'].includes(name)) {
      cpSync(join(root, name), join(dir, name), { recursive: true })
    }
  }
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
  return dir
}

/** Packs a copy of the checkout; returns the path of the package. */
export async function pack (t: Test, from: string, to: string): Promise<string> {
  mkdirSync(to)
  const command = 'umask 022 && npm pack --silent --pack-destination "$1"'
  const { code, stderr } = await runProgram('sh', ['-c', command, 'sh', to], { cwd: from })
  t.equal(code, 0, stderr)
  return join(to, `${name}-${version}.tgz`)
}

/** Returns the digest of a file. */
export function digestOf (file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** Kills a server and removes its folder if this process ends without teardowns, as a test after its timeout. */
export function killOnExit (child: ChildProcess, folder: string): void {
  const script = 'trap "" INT TERM HUP; read -r _; kill -9 "$0"; rm -rf "$1"'
  const guard = spawn('sh', ['-c', script, String(child.pid), folder], { stdio: ['pipe', 'ignore', 'ignore'] })
  child.once('exit', () => {
    guard.kill('SIGKILL')
  })
}
