import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { Redis } from 'ioredis'
import { certificate, certificateKey } from './certificate.js'
import { until } from './until.js'
import { freePort } from './free-port.js'
import { killOnExit } from './run-program.js'

/** Differences from a healthy server without a password. */
export interface RedisOptions {
  /** Fixed port, to replace another server. */
  readonly port?: number
  readonly password?: string
  readonly tls?: boolean
  readonly maxmemory?: string
  readonly maxmemoryPolicy?: string
  /** Master of a read-only replica, which has caught up when the test continues. */
  readonly replicaOf?: RedisProcess
  /** Further arguments of redis-server. */
  readonly args?: readonly string[]
}

/** Starts a real redis-server and waits until it is ready; the set-up script guarantees that one is installed. */
export async function startRedis (t: Test, options: RedisOptions = {}): Promise<RedisProcess> {
  const { port, password, tls = false, maxmemory = '64mb', maxmemoryPolicy = 'allkeys-lru', replicaOf, args = [] } =
    options
  const redis = await startProcess(t, {
    port,
    password,
    tls,
    ready: /eady to accept connections/,
    files: () => tls ? tlsFiles : {},
    args: port => [
      ...listenArguments(port, tls),
      '--save',
      '',
      '--appendonly',
      'no',
      // Starts replication at once, without waiting for further replicas.
      '--repl-diskless-sync',
      'yes',
      '--repl-diskless-sync-delay',
      '0',
      '--maxmemory',
      maxmemory,
      '--maxmemory-policy',
      maxmemoryPolicy,
      ...(password === undefined ? [] : ['--requirepass', password, '--masterauth', password]),
      ...(replicaOf === undefined ? [] : ['--replicaof', '127.0.0.1', String(replicaOf.port)]),
      ...args
    ]
  })
  if (replicaOf !== undefined) await untilFollowing(redis, replicaOf)
  return redis
}

/** Turns a running server into a read-only replica, or into its own master again. */
export async function replicate (redis: RedisProcess, master: RedisProcess | undefined): Promise<void> {
  if (master === undefined) {
    await redis.client.replicaof('NO', 'ONE')
    return
  }
  await redis.client.replicaof('127.0.0.1', master.port)
  await untilFollowing(redis, master)
}

/** Waits until a replica has all data of its master. */
export async function untilFollowing (redis: RedisProcess, master: RedisProcess): Promise<void> {
  await until(async () => {
    const info = await redis.client.info('replication')
    return info.includes(`master_port:${master.port}\r`) && info.includes('master_link_status:up')
  }, `${redis.host} follows ${master.host}`)
}

/** Returns arguments to listen on the loopback, with or without TLS. */
export function listenArguments (port: number, tls: boolean): string[] {
  const plain = ['--bind', '127.0.0.1', '--port', tls ? '0' : String(port)]
  if (!tls) return plain
  return [
    ...plain,
    '--tls-port',
    String(port),
    '--tls-replication',
    'yes',
    '--tls-auth-clients',
    'no',
    '--tls-cert-file',
    'certificate.pem',
    '--tls-key-file',
    'key.pem',
    '--tls-ca-cert-file',
    'certificate.pem'
  ]
}

/** Files of a server with TLS. */
export const tlsFiles: Record<string, string> = { 'certificate.pem': certificate, 'key.pem': certificateKey }

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
