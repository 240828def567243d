import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { type Test } from 'tap'
import { certificate } from './certificate.js'
import { freePort } from './free-port.js'
import { killOnExit } from './run-program.js'

/** Command, and its connection details. */
export interface Launch {
  readonly args: (port: number) => readonly string[]
  /** Line of output that reports readiness. */
  readonly ready: RegExp
  /** Files to write into its folder. */
  readonly files?: (port: number) => Record<string, string>
  readonly port?: number | undefined
  readonly password?: string | undefined
  readonly tls?: boolean | undefined
}

/** Starts a redis-server in a folder of its own; both are removed at the end of the test in any case. */
export async function startProcess (t: Test, launch: Launch): Promise<RedisProcess> {
  const folder = await mkdtemp(join(tmpdir(), 'varve-redis-'))
  const redis = new RedisProcess(launch, folder, launch.port ?? await freePort())
  t.teardown(async () => {
    redis.disconnect()
    await redis.kill()
    await rm(folder, { recursive: true, force: true })
  })
  await redis.start()
  return redis
}

/** A running redis-server of any kind. */
export class RedisProcess {
  readonly folder: string
  readonly #launch: Launch
  #port: number
  #hasRun = false
  #child: ChildProcessByStdio<null, Readable, null> | undefined
  #gone: Promise<unknown> = Promise.resolve()
  #client: Redis | undefined

  constructor (launch: Launch, folder: string, port: number) {
    this.#launch = launch
    this.folder = folder
    this.#port = port
  }

  get port (): number {
    return this.#port
  }

  get host (): string {
    return `127.0.0.1:${this.#port}`
  }

  /** Address with its password. */
  get url (): string {
    const { password, tls } = this.#launch
    return `${tls === true ? 'rediss' : 'redis'}://${
      password === undefined ? '' : `:${encodeURIComponent(password)}@`
    }${this.host}`
  }

  get pid (): number | undefined {
    return this.#child?.pid
  }

  get isRunning (): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Client for the test itself. It reconnects with the server, and only its commands report errors. */
  get client (): Redis {
    this.#client ??= new Redis(this.url, {
      retryStrategy: () => 20,
      ...(this.#launch.tls === true && { tls: { ca: certificate } })
    }).on('error', () => {})
    return this.#client
  }

  /** Starts the server; the first time it writes files, and takes another port if its own was taken meanwhile. */
  async start (): Promise<void> {
    for (let attempt = 1;; attempt++) {
      if (!this.#hasRun) await this.#layFiles()
      const fault = await this.#spawn()
      if (fault === undefined) break
      if (attempt === 20 || !fault.includes('in use')) throw new Error(`redis-server did not start:\n${fault}`)
      if (!this.#hasRun && this.#launch.port === undefined) this.#port = await freePort()
      // Waits, because another test may be trying this port at the moment.
      else await pause(25)
    }
    this.#hasRun = true
  }

  /** Starts the server again at the same address without data; kills it first if it runs. */
  async restart (): Promise<void> {
    await this.kill()
    await this.start()
  }

  /** Kills the server, even a frozen one. */
  async kill (): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#gone
  }

  /** Stops the server as an operator would. */
  async stop (): Promise<void> {
    this.#child?.kill('SIGTERM')
    this.#child?.kill('SIGCONT')
    await this.#gone
  }

  /** Freezes the server with open connections: the kernel still accepts bytes, and no response comes. */
  freeze (): void {
    this.#child?.kill('SIGSTOP')
  }

  /** Resumes a frozen server. */
  thaw (): void {
    this.#child?.kill('SIGCONT')
  }

  /** Disconnects the test's client. */
  disconnect (): void {
    this.#client?.disconnect()
    this.#client = undefined
  }

  async #layFiles (): Promise<void> {
    for (const [name, text] of Object.entries(this.#launch.files?.(this.#port) ?? {})) {
      await writeFile(join(this.folder, name), text)
    }
  }

  /** Waits until the server is ready; returns its output if it exits instead. */
  async #spawn (): Promise<string | undefined> {
    const child = spawn('redis-server', [...this.#launch.args(this.#port)], {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'inherit']
    })
    this.#child = child
    this.#gone = new Promise(resolve => {
      child.once('exit', resolve).once('error', resolve)
    })
    await once(child, 'spawn')
    killOnExit(child, this.folder)
    const outputLines: string[] = []
    for await (const line of createInterface(child.stdout)) {
      outputLines.push(line)
      if (!this.#launch.ready.test(line)) continue
      child.stdout.resume()
      return undefined
    }
    await this.#gone
    return outputLines.join('\n')
  }
}
