import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Readable } from 'node:stream'
import { type Test } from 'tap'
import { until } from '../until.js'

/** A log line. */
export type LogLine = Readonly<Record<string, unknown>>

// Matches output of the inspector itself.
const ofInspector = /^(?:Debugger (?:listening|attached|ending)|For help, see:|Waiting for the debugger)/
const errorLevel = 50
const reloadedMessage = 'configuration reloaded'
const reloadMs = 30_000
const startMs = 30_000

/** Start options besides the configuration. */
export interface StartOptions {
  /** Flags of Node.js. */
  readonly flags?: readonly string[]
  /** Limit of open files. */
  readonly descriptors?: number
  /** File of a cgroup that the process joins before it starts. */
  readonly cgroupFile?: string | undefined
  readonly env?: Readonly<Record<string, string>>
  /** False for several workers, whose inspectors take ports that others may use. */
  readonly isInspected?: boolean
}

/** Starts the compiled program with a configuration file, and waits until it can serve reads. */
export async function startVarveProcess (
  t: Test,
  config: object,
  { flags = [], descriptors, cgroupFile, env = {}, isInspected = true }: StartOptions = {}
): Promise<VarveProcess> {
  const file = join(t.testdir({ 'varve.yaml': JSON.stringify(config) }), 'varve.yaml')
  const line = [
    process.execPath,
    ...(isInspected ? ['--inspect=127.0.0.1:0'] : []),
    ...flags,
    join(import.meta.dirname, '../../../dist/cli.js'),
    'serve',
    '--config',
    file
  ]
  const limits = [
    ...(descriptors === undefined ? [] : [`ulimit -n ${descriptors}`]),
    ...(cgroupFile === undefined ? [] : [`echo $$ > ${cgroupFile}`])
  ]
  const [command = '', ...args] = limits.length === 0
    ? line
    : ['/bin/sh', '-c', [...limits, 'exec "$0" "$@"'].join(' && '), ...line]
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => {
    child.kill('SIGKILL')
  })
  const program = new VarveProcess(child, file)
  await until(() => program.isListening, `varve listens:\n${program.stderrLines.join('\n')}`, startMs)
  await until(async () => (await fetch(`${program.adminUrl}/readyz`)).ok, 'varve is ready')
  return program
}

/** A varve process. */
export class VarveProcess {
  readonly ended: Promise<number | null>
  /** Lines on standard error: none while all is healthy. */
  readonly stderrLines: string[] = []
  /** Address of its inspector. */
  inspectorUrl = ''
  readonly errors: LogLine[] = []
  readonly #child: ChildProcessByStdio<null, Readable, Readable>
  readonly #file: string
  readonly #counts = new Map<string, number>()
  #url = ''
  #adminUrl = ''

  constructor (child: ChildProcessByStdio<null, Readable, Readable>, file: string) {
    this.#child = child
    this.#file = file
    this.ended = once(child, 'close').then(([code]) => code as number | null)
    createInterface(child.stdout).on('line', text => {
      this.#read(JSON.parse(text) as LogLine)
    })
    createInterface(child.stderr).on('line', text => {
      const inspectorUrl = /^Debugger listening on (ws:\S+)$/.exec(text)?.[1]
      if (inspectorUrl !== undefined) this.inspectorUrl = inspectorUrl
      else if (text !== '' && !ofInspector.test(text)) this.stderrLines.push(text)
    })
  }

  get url (): string {
    return this.#url
  }

  get adminUrl (): string {
    return this.#adminUrl
  }

  get isListening (): boolean {
    return this.#url !== ''
  }

  get hasEnded (): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  get pid (): number {
    return this.#child.pid ?? 0
  }

  /** Reloads it with another configuration. */
  async reload (config: object): Promise<void> {
    const before = this.#countOf(reloadedMessage)
    writeFileSync(this.#file, JSON.stringify(config))
    this.#child.kill('SIGHUP')
    await until(() => this.#countOf(reloadedMessage) > before, reloadedMessage, reloadMs)
  }

  terminate (): void {
    this.#child.kill('SIGTERM')
  }

  #countOf (msg: string): number {
    return this.#counts.get(msg) ?? 0
  }

  #read (line: LogLine): void {
    const msg = String(line['msg'])
    this.#counts.set(msg, this.#countOf(msg) + 1)
    if (Number(line['level']) >= errorLevel) this.errors.push(line)
    if (msg !== 'listening') return
    this.#url = String(line['url'])
    this.#adminUrl = String(line['adminUrl'])
  }
}
