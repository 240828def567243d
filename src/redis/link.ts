import { Cluster } from 'ioredis'
import { withTimeout } from '../with-timeout.js'
import { CircuitBreaker } from './circuit-breaker.js'
import { type RedisOperation } from './operation-names.js'
import { type RedisClient } from './create-client.js'

/** Counts commands and failures for metrics. */
export interface RedisMetrics {
  redisCalled(operation: RedisOperation, seconds: number): void
  redisFailed(operation: RedisOperation): void
}

/** Settings of a Redis link. */
export interface RedisLinkOptions {
  /** Limit for the response to one command. */
  readonly timeoutMs: number
  /** Key for probes; it need not exist. */
  readonly probeKey: string
  readonly now: () => number
  readonly metrics: RedisMetrics
}

/** Notifications about the state of a Redis link. */
export interface RedisLinkListener {
  onUp(): void
  onDown(reason: string): void
}

/** Failure of a Redis that did not respond in time, or got no command because the circuit is open. */
export class RedisFailure extends Error {}

/** Reason why Redis is not used; a rejected user, password or permission counts as failed authentication. */
export type RedisFault = 'authentication failed' | 'unreachable'

// Pause before reconnecting again while the server still rejects writes as a replica.
const minReadOnlyWaitMs = 1000
const maxReadOnlyWaitMs = 60_000

// Time after a failed command in which a read that has waited for Redis does not wait for it again.
const steadyAfterMs = 1000

const downFailure = new RedisFailure('Redis is down: no command is sent until a probe succeeds')
const timeoutFailure = new RedisFailure('timed out')

/**
 * Connection to Redis with a circuit breaker, so that a slow or dead Redis costs reads little (law 6: the cache can
 * only help).
 */
export class RedisLink {
  readonly #client: RedisClient
  readonly #options: RedisLinkOptions
  readonly #breaker: CircuitBreaker
  #listener: RedisLinkListener | undefined
  #lastError = 'not connected yet'
  #isFailureReported = false
  #reported: RedisFault | undefined
  #clusterProbe: Promise<void> | undefined
  #readOnlyWaitMs = minReadOnlyWaitMs
  #readOnlyWaitUntilMs = -Infinity
  #failedAtMs = -Infinity
  readonly #scriptErrors = new Map<RedisOperation, string>()

  constructor (client: RedisClient, options: RedisLinkOptions) {
    this.#client = client
    this.#options = options
    this.#breaker = new CircuitBreaker(async () => await this.#probe(), state => {
      if (state === 'open') return this.#reportDown()
      this.#reported = undefined
      this.#listener?.onUp()
    })
    client.on('error', (error: Error) => this.#connectionFailed(error.message))
    // Listens to the event by which alone clusters report errors of a single server.
    client.on('node error', (error: Error) => this.#connectionFailed(error.message))
    client.on('ready', () => {
      this.#isFailureReported = false
      this.#breaker.probeNow().catch(() => {})
    })
    client.on('reconnecting', () => {
      this.#isFailureReported = false
    })
    client.on('close', () => {
      // Records a connection that a server or proxy closed without an error.
      if (!this.#isFailureReported) this.#connectionFailed('connection closed')
      this.#breaker.open()
    })
  }

  get isUp (): boolean {
    return this.#breaker.isClosed
  }

  /** True while it is up and no command has failed lately. */
  get isSteady (): boolean {
    return this.isUp && this.#options.now() - this.#failedAtMs > steadyAfterMs
  }

  get lastError (): string {
    // The default of Redis, which an operator can change.
    const hint = ': with cluster-require-full-coverage yes one dead master takes the whole cluster away'
    return this.#lastError.startsWith('CLUSTERDOWN') ? `${this.#lastError}${hint}` : this.#lastError
  }

  /** Fault to report while it is down. */
  get fault (): RedisFault {
    // Searches anywhere in the message, since sentinels and clusters wrap the server's error.
    return /\b(?:WRONGPASS|NOAUTH|NOPERM|ERR invalid password)\b/.test(this.#lastError)
      ? 'authentication failed'
      : 'unreachable'
  }

  /** Connects and notifies the listener from now on; resolves when the first attempt has ended, successful or not. */
  async start (listener: RedisLinkListener): Promise<void> {
    this.#listener = listener
    this.#breaker.open()
    const failed = new Promise<void>(resolve => {
      this.#client.once('close', resolve)
      this.#client.once('error', () => resolve())
    })
    // The error listener reports this failure.
    const connected = this.#client.connect().then(async () => await this.#breaker.probeNow(), () => {})
    await withTimeout(this.#options.timeoutMs * 10, Promise.race([connected, failed]))
    if (!this.isUp && this.#reported === undefined) this.#reportDown()
  }

  /**
   * Sends a command unless the circuit is open; rejects within the time limit. Errors about one command alone do not
   * count as failures.
   */
  async run<T> (
    operation: RedisOperation,
    command: (client: RedisClient) => Promise<T>,
    timeoutMs: number = this.#options.timeoutMs
  ): Promise<T> {
    if (!this.#breaker.isClosed) throw downFailure
    return await this.#run(operation, command, timeoutMs)
  }

  /** Runs a script, and remembers its error, which lasts until an operator changes Redis. */
  async runScript (
    operation: RedisOperation,
    script: string,
    keys: readonly string[],
    args: ReadonlyArray<string | number>,
    timeoutMs?: number
  ): Promise<unknown> {
    try {
      const evaluate = async (client: RedisClient): Promise<unknown> =>
        await client.eval(script, keys.length, ...keys, ...args)
      const result = await this.run(operation, evaluate, timeoutMs)
      this.#scriptErrors.delete(operation)
      return result
    } catch (error) {
      if (isErrorReply(error)) this.#scriptErrors.set(operation, error.message)
      throw error
    }
  }

  /** Error of the last script of an operation from a Redis that responds otherwise; undefined after a success. */
  scriptErrorOf (operation: RedisOperation): string | undefined {
    return this.#scriptErrors.get(operation)
  }

  /** Forgets the error of an operation that this process no longer needs. */
  forgetScriptError (operation: RedisOperation): void {
    this.#scriptErrors.delete(operation)
  }

  /** Probes because another process has lost Redis; a failure opens the circuit. */
  async check (): Promise<void> {
    if (this.isUp) await this.#probe().catch(() => this.#breaker.open())
  }

  /** Closes the connection; pending commands fail. */
  stop (): void {
    this.#breaker.stop()
    this.#client.disconnect()
  }

  /**
   * Reconnects, since another server behind the name may be the master by now; the pause doubles while writes stay
   * rejected.
   */
  #reconnectFromReplica (): void {
    const nowMs = this.#options.now()
    if (nowMs < this.#readOnlyWaitUntilMs) return
    this.#readOnlyWaitUntilMs = nowMs + this.#readOnlyWaitMs
    this.#readOnlyWaitMs = Math.min(this.#readOnlyWaitMs * 2, maxReadOnlyWaitMs)
    this.#client.disconnect(true)
  }

  /** Probes the other servers of a cluster: five failures in a row may concern one server only. */
  #recordFailure (): void {
    if (!(this.#client instanceof Cluster)) return this.#breaker.recordFailure()
    if (!this.#breaker.isClosed) return
    this.#clusterProbe ??= this.#probe().then(() => {}, () => this.#breaker.recordFailure()).finally(() => {
      this.#clusterProbe = undefined
    })
  }

  // Keeps the first error of an attempt, which has caused the others.
  #connectionFailed (reason: string): void {
    if (!this.#isFailureReported) this.#setLastError(reason)
    this.#isFailureReported = true
    this.#options.metrics.redisFailed('connect')
  }

  // Reports a rejected password even after another outage was reported, since only an operator can fix it.
  #setLastError (reason: string): void {
    this.#lastError = reason
    if (!this.isUp && this.fault === 'authentication failed' && this.#reported !== this.fault) this.#reportDown()
  }

  #reportDown (): void {
    this.#reported = this.fault
    this.#listener?.onDown(this.#lastError)
  }

  async #probe (): Promise<void> {
    // Reconnects after every third failed probe: the connection may be dead although the server is not.
    if (this.#breaker.failedProbes % 3 === 2 && this.#client.status === 'ready') this.#client.disconnect(true)
    // ioredis gives up for ever if a sentinel reports a failover while another is asked for the master.
    if (this.#client.status === 'end') this.#client.connect().catch(() => {})
    await this.#run('probe', async client => await probeRedis(client, this.#options.probeKey), this.#options.timeoutMs)
  }

  async #run<T> (operation: RedisOperation, command: (client: RedisClient) => Promise<T>, limitMs: number): Promise<T> {
    const { now, metrics, timeoutMs } = this.#options
    if (this.#client.status !== 'ready') throw downFailure
    const startedMs = now()
    try {
      const result = await withTimeout(limitMs, command(this.#client).then(value => ({ value })))
      if (result === undefined) throw timeoutFailure
      // Counts only a success within the limit of reads: background commands may take longer.
      if (now() - startedMs <= timeoutMs) this.#breaker.recordSuccess()
      if (operation === 'set') this.#readOnlyWaitMs = minReadOnlyWaitMs
      return result.value
    } catch (error) {
      metrics.redisFailed(operation)
      this.#failedAtMs = now()
      if (isErrorReply(error) && error.message.startsWith('READONLY')) this.#reconnectFromReplica()
      // An error response to a probe means that Redis does not serve varve at all.
      if (!isCommandError(error) || operation === 'probe') {
        // Keeps the cause: errors that follow from a broken connection say less.
        if (error instanceof RedisFailure || isErrorReply(error)) this.#setLastError(error.message)
        else if (isClientTimeout(error)) this.#setLastError(timeoutFailure.message)
        if (operation !== 'probe') this.#recordFailure()
      }
      throw error
    } finally {
      metrics.redisCalled(operation, (now() - startedMs) / 1000)
    }
  }
}

/** True for an error about one command, as opposed to a server that cannot or will not serve. */
function isCommandError (error: unknown): boolean {
  return isErrorReply(error) && !/^(?:NOAUTH|WRONGPASS|LOADING|CLUSTERDOWN|MASTERDOWN)\b/.test(error.message)
}

/** True when ioredis's own limit ended a command, as after the process was suspended. */
function isClientTimeout (error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out'
}

function isErrorReply (error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}

/**
 * Resolves when Redis responds for a key. In a cluster one server is enough: an outage of another must not disable the
 * rest.
 */
async function probeRedis (client: RedisClient, key: string): Promise<void> {
  if (!(client instanceof Cluster)) {
    await client.exists(key)
    return
  }
  await Promise.any(
    client.nodes('master').map(async server => {
      await server.exists(key).catch((error: unknown) => {
        // All servers but the key's owner respond MOVED, which proves that they respond.
        if (!(error instanceof Error) || !error.message.startsWith('MOVED')) throw error
      })
    })
  ).catch((error: AggregateError) => {
    throw error.errors[0] ?? error
  })
}
