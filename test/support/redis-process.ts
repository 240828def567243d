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
import { killOnExit } from './kill-on-exit.js'

/** What to start, and how it is spoken to. */
export interface Launch {
  readonly args: (port: number) => readonly string[]
  /** The line that says that it takes connections. */
  readonly ready: RegExp
  /** Files to lay into its folder, where it runs. */
  readonly files?: (port: number) => Record<string, string>
  readonly port?: number | undefined
  readonly password?: string | undefined
  readonly tls?: boolean | undefined
}

/** Starts a redis-server in a folder of its own; nothing of it is left when the test has ended, however it ends. */
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

  /** Where it listens, with its password. */
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

  /** For the test's own looks. It comes back when the server does, and its faults are those of its commands alone. */
  get client (): Redis {
    this.#client ??= new Redis(this.url, {
      retryStrategy: () => 20,
      ...(this.#launch.tls === true && { tls: { ca: certificate } })
    }).on('error', () => {})
    return this.#client
  }

  /** Starts it; the first time it lays its files and takes another port where its own was taken meanwhile. */
  async start (): Promise<void> {
    for (let attempt = 1;; attempt++) {
      if (!this.#hasRun) await this.#layFiles()
      const fault = await this.#spawn()
      if (fault === undefined) break
      if (attempt === 20 || !fault.includes('in use')) throw new Error(`redis-server did not start:\n${fault}`)
      if (!this.#hasRun && this.#launch.port === undefined) this.#port = await freePort()
      // Another test may be trying this very port at this moment.
      else await pause(25)
    }
    this.#hasRun = true
  }

  /** Starts it again where it was, with nothing of what it kept; kills it first where it still runs. */
  async restart (): Promise<void> {
    await this.kill()
    await this.start()
  }

  /** Ends it at once, frozen or not. */
  async kill (): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#gone
  }

  /** Ends it as an operator would. */
  async stop (): Promise<void> {
    this.#child?.kill('SIGTERM')
    this.#child?.kill('SIGCONT')
    await this.#gone
  }

  /** Makes it hang with its connections open: the system still takes bytes for it, and nothing comes back. */
  freeze (): void {
    this.#child?.kill('SIGSTOP')
  }

  /** Lets it go on. */
  thaw (): void {
    this.#child?.kill('SIGCONT')
  }

  /** Closes the client of the test. */
  disconnect (): void {
    this.#client?.disconnect()
    this.#client = undefined
  }

  async #layFiles (): Promise<void> {
    for (const [name, text] of Object.entries(this.#launch.files?.(this.#port) ?? {})) {
      await writeFile(join(this.folder, name), text)
    }
  }

  /** Waits until it takes connections, and answers what it said where it ended instead. */
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
    const said: string[] = []
    for await (const line of createInterface(child.stdout)) {
      said.push(line)
      if (!this.#launch.ready.test(line)) continue
      child.stdout.resume()
      return undefined
    }
    await this.#gone
    return said.join('\n')
  }
}
