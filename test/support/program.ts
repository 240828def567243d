import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { type Test } from 'tap'
import { sendRequest } from './client.js'
import { freePort } from './free-port.js'
import { until } from './until.js'

/** The compiled program as a system runs it. */
export interface Program {
  readonly child: ChildProcess
  /** Resolves when it has ended and all its output is read. */
  readonly ended: Promise<{ code: number | null, signal: string | null }>
  out(): string
  err(): string
  /** Returns the log records so far. */
  log(): Array<Record<string, unknown>>
  /** Waits until the output matches. */
  saw(pattern: RegExp): Promise<RegExpExecArray>
}

/** A program that serves. */
export interface RunningProgram extends Program {
  readonly url: string
  readonly adminUrl: string
  metric(series: string): Promise<number>
  /** Returns the pids of all workers. */
  pids(workers: number): Promise<number[]>
}

/** Conditions that the program starts under. */
export interface How {
  readonly nodeArgs?: readonly string[]
  /** File descriptor for log lines, in place of a pipe that the test reads. */
  readonly stdout?: number
  /** Limit of open files. */
  readonly files?: number
  /** True for a process group of its own, as a terminal starts it. */
  readonly detached?: boolean
}

/** Starts the program with arguments. */
export function spawnProgram (t: Test, args: readonly string[], how: How = {}): Program {
  const { nodeArgs = [], stdout = 'pipe', files, detached = false } = how
  const all = [...nodeArgs, join(import.meta.dirname, '../../dist/cli.js'), ...args]
  const [command, given] = files === undefined
    ? [process.execPath, all]
    : ['/bin/sh', ['-c', `ulimit -n ${files}; exec "$0" "$@"`, process.execPath, ...all]]
  const child = spawn(command, given, { env: {}, stdio: ['ignore', stdout, 'pipe'], detached })
  t.teardown(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout?.on('data', text => {
    out += String(text)
  })
  child.stderr?.on('data', text => {
    err += String(text)
  })
  return {
    child,
    ended: new Promise(resolve =>
      child.once('close', (code, signal) => {
        resolve({ code, signal })
      })
    ),
    out: () => out,
    err: () => err,
    log: () => out.split('\n').slice(0, -1).map(line => JSON.parse(line) as Record<string, unknown>),
    saw: async pattern => {
      await until(() => pattern.test(out), String(pattern))
      return pattern.exec(out) as RegExpExecArray
    }
  }
}

/** Starts varve on ports of its own, and waits until it is ready. */
export async function startProgram (t: Test, args: readonly string[], how?: How): Promise<RunningProgram> {
  const [listen, admin] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`]
  const program = spawnProgram(t, ['--listen', listen, '--admin', admin, ...args], how)
  const adminUrl = `http://${admin}`
  await until(async () => (await sendRequest(adminUrl, '/readyz')).status === 200, 'varve is ready')
  const pids = async (): Promise<number[]> =>
    (JSON.parse((await sendRequest(adminUrl, '/status.json')).body) as { workers: Array<{ pid: number }> }).workers
      .map(({ pid }) => pid)
  return {
    ...program,
    url: `http://${listen}`,
    adminUrl,
    metric: async series => {
      const { body } = await sendRequest(adminUrl, '/metrics')
      return Number(body.split('\n').find(line => line.startsWith(`${series} `))?.slice(series.length + 1))
    },
    // Omits a worker that once misses the deadline for its report.
    pids: async workers => {
      let found: number[] = []
      await until(async () => (found = await pids()).length === workers, 'all workers respond')
      return found
    }
  }
}

/** Returns true if no process has this id. */
export function isGone (pid: number): boolean {
  try {
    return !process.kill(pid, 0)
  } catch {
    return true
  }
}
