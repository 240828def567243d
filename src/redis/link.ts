import { Cluster } from 'ioredis'
import { within } from '../within.js'
import { Breaker } from './breaker.js'
import { type RedisOperation } from './operations.js'
import { type RedisClient } from './place.js'
import { probe } from './probe.js'

/** Told of everything that was asked of Redis and how it ended. */
export interface RedisTally {
  redisAsked(operation: RedisOperation, seconds: number): void
  redisFailed(operation: RedisOperation): void
}

/** What a link needs to know. */
export interface LinkOptions {
  /** How long an answer is waited for. */
  readonly timeoutMs: number
  /** A key of varve's own to probe with, which need not exist. */
  readonly probeKey: string
  readonly now: () => number
  readonly tally: RedisTally
  readonly onUp: () => void
  readonly onDown: (reason: string) => void
}

/** Redis gave no answer, or none in time, or was not asked because it is known to be sick. */
export class RedisFailure extends Error {}

/** Why Redis is not used: it rejects the user, the password or the permission of varve, or gives no answer. */
export type RedisFault = 'authentication failed' | 'does not answer'

// How long a server that refuses writes is put up with before another connection is tried.
const shortestStayMs = 1000
const longestStayMs = 60_000

const dead = new RedisFailure('Redis is not asked until it answers again')
const late = new RedisFailure('no answer in time')

/** The one connection to Redis, of whatever kind, and whether it is worth asking (law 6: it can only help). */
export class RedisLink {
  readonly #client: RedisClient
  readonly #options: LinkOptions
  readonly #breaker: Breaker
  #lastError = 'not reached yet'
  #isFailureTold = false
  #reported: RedisFault | undefined
  #doubt: Promise<void> | undefined
  #stayMs = shortestStayMs
  #stayUntilMs = -Infinity

  constructor (client: RedisClient, options: LinkOptions) {
    this.#client = client
    this.#options = options
    this.#breaker = new Breaker(async () => {
      await this.#probe()
    }, state => {
      if (state === 'open') return this.#reportDown()
      this.#reported = undefined
      options.onUp()
    })
    client.on('error', (error: Error) => {
      this.#connectionFailed(error.message)
    })
    // A cluster tells only here what is wrong with one of its servers.
    client.on('node error', (error: Error) => {
      this.#connectionFailed(error.message)
    })
    client.on('ready', () => {
      this.#isFailureTold = false
      this.#breaker.probeNow().catch(() => {})
    })
    client.on('reconnecting', () => {
      this.#isFailureTold = false
    })
    client.on('close', () => {
      // A server, or what stands before it, may also hang up without a word.
      if (!this.#isFailureTold) this.#connectionFailed('the connection broke off')
      this.#breaker.open()
    })
  }

  /** Whether it answers. */
  get isUp (): boolean {
    return this.#breaker.isClosed
  }

  /** What went wrong last. */
  get lastError (): string {
    return this.#lastError
  }

  /** Why it is not used while it is down. */
  get fault (): RedisFault {
    // Sentinels and clusters wrap the server's own words.
    return /\b(?:WRONGPASS|NOAUTH|NOPERM|ERR invalid password)\b/.test(this.#lastError)
      ? 'authentication failed'
      : 'does not answer'
  }

  /** Begins to connect; resolves when the first attempt has come to an end, well or not. */
  async start (): Promise<void> {
    this.#breaker.open()
    const settled = new Promise<void>(resolve => {
      this.#client.once('close', resolve)
      this.#client.once('error', () => {
        resolve()
      })
    })
    // The error listener has heard of what fails here.
    const connected = this.#client.connect().then(async () => {
      await this.#breaker.probeNow()
    }, () => {})
    await within(this.#options.timeoutMs * 10, Promise.race([connected, settled]))
    if (!this.isUp && this.#reported === undefined) this.#reportDown()
  }

  /**
   * Asks, unless it is known to be in vain; fails in time. An answer that says no is an answer, but for one that
   * refuses varve itself.
   */
  async ask<T> (
    operation: RedisOperation,
    work: (client: RedisClient) => Promise<T>,
    withinMs: number = this.#options.timeoutMs
  ): Promise<T> {
    if (!this.#breaker.isClosed) throw dead
    return await this.#ask(operation, work, withinMs)
  }

  /** Ends the connection and all that waits on it. */
  stop (): void {
    this.#breaker.stop()
    this.#client.disconnect()
  }

  /** Behind one name another server may be the master by now; the wait doubles where it turns out to be none. */
  #leaveReplica (): void {
    const nowMs = this.#options.now()
    if (nowMs < this.#stayUntilMs) return
    this.#stayUntilMs = nowMs + this.#stayMs
    this.#stayMs = Math.min(this.#stayMs * 2, longestStayMs)
    this.#client.disconnect(true)
  }

  /** Five failures in a row may all be of one server of a cluster; whether the others answer is asked beside. */
  #failed (): void {
    if (!(this.#client instanceof Cluster)) return this.#breaker.failed()
    if (!this.#breaker.isClosed) return
    this.#doubt ??= this.#probe().then(() => {}, () => {
      this.#breaker.failed()
    }).finally(() => {
      this.#doubt = undefined
    })
  }

  // Of several errors in one attempt the first is the cause.
  #connectionFailed (reason: string): void {
    if (!this.#isFailureTold) this.#failedWith(reason)
    this.#isFailureTold = true
    this.#options.tally.redisFailed('connect')
  }

  // Reports a rejected password also where an outage came first: it does not pass by itself.
  #failedWith (reason: string): void {
    this.#lastError = reason
    if (!this.isUp && this.fault === 'authentication failed' && this.#reported !== this.fault) this.#reportDown()
  }

  #reportDown (): void {
    this.#reported = this.fault
    this.#options.onDown(this.#lastError)
  }

  async #probe (): Promise<void> {
    // A connection that leads nowhere looks just like a server that is frozen, but a new one may get through.
    if (this.#breaker.failedProbes % 3 === 2 && this.#client.status === 'ready') this.#client.disconnect(true)
    await this.#ask('probe', async client => {
      await probe(client, this.#options.probeKey)
    }, this.#options.timeoutMs)
  }

  async #ask<T> (operation: RedisOperation, work: (client: RedisClient) => Promise<T>, withinMs: number): Promise<T> {
    const { now, tally, timeoutMs } = this.#options
    if (this.#client.status !== 'ready') throw dead
    const started = now()
    try {
      const answer = await within(withinMs, work(this.#client).then(value => ({ value })))
      if (answer === undefined) throw late
      // What nobody waits for may take longer, but it is no sign that reads would be answered in time.
      if (now() - started <= timeoutMs) this.#breaker.succeeded()
      if (operation === 'set') this.#stayMs = shortestStayMs
      return answer.value
    } catch (error) {
      tally.redisFailed(operation)
      if (isReply(error) && error.message.startsWith('READONLY')) this.#leaveReplica()
      // A probe asks for nothing that Redis could deny for that one command alone.
      if (!isWordOf(error) || operation === 'probe') {
        // What came of a broken connection says less than what broke it.
        if (error instanceof RedisFailure || isReply(error)) this.#failedWith(error.message)
        else if (isGivenUp(error)) this.#failedWith(late.message)
        if (operation !== 'probe') this.#failed()
      }
      throw error
    } finally {
      tally.redisAsked(operation, (now() - started) / 1000)
    }
  }
}

/** Whether an error is Redis's own word on one command, and not that it cannot or will not serve. */
function isWordOf (error: unknown): boolean {
  return isReply(error) && !/^(?:NOAUTH|WRONGPASS|LOADING|CLUSTERDOWN|MASTERDOWN)\b/.test(error.message)
}

/**
 * Whether the client gave up waiting by itself, as it does where this process stood still for longer than it ever
 * waits.
 */
function isGivenUp (error: unknown): boolean {
  return error instanceof Error && error.message === 'Command timed out'
}

function isReply (error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError'
}
