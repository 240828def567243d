import { type ClientRateLimit, type TokenBuckets } from '../clients/token-buckets.js'
import { type IpcCalls, noResponse, methodsOf } from './ipc-calls.js'
import { type PrimaryMethods, type RecordPlace, type SentMessage, type WorkerMethods } from './messages.js'
import { type Carrier } from './peers.js'
import { type Records } from './records.js'
import { type LogKeeper, type LogMember, type LogSettings } from '../cache/disk-keeper.js'
import { type Deferred } from './deferred.js'

type PrimaryCalls = Pick<IpcCalls<PrimaryMethods>, 'call'>

// Exceeds the time limit of a command of Redis, which the primary process may have to wait for.
const recordTimeoutMs = 750
// The primary process normally responds at once; while it hangs, each worker counts alone.
const takeTimeoutMs = 250

/** Carries messages and records of a worker through the primary process, to the workers beside it and to Redis. */
export class IpcCarrier implements Carrier {
  readonly hostRecords: Records
  readonly redisRecords: Records
  readonly #send: (message: SentMessage) => void
  #onMessage: (message: SentMessage) => void = () => {}

  constructor (send: (message: SentMessage) => void, primary: PrimaryCalls) {
    this.#send = send
    // Other hosts may purge everything while the primary process hangs.
    const onHang = (): void => this.#onMessage({ kind: 'changed', isRedisUp: false })
    this.hostRecords = recordsThrough(primary, 'host')
    this.redisRecords = recordsThrough(primary, 'redis', onHang)
  }

  subscribe (onMessage: (message: SentMessage) => void): void {
    this.#onMessage = onMessage
  }

  /** Takes a message from the primary process. */
  receive (message: SentMessage): void {
    this.#onMessage(message)
  }

  publish (message: SentMessage): void {
    this.#send(message)
  }

  start (): void {}

  stop (): void {}
}

/** Returns the records of a place, through the primary process. */
export function recordsThrough (primary: PrimaryCalls, place: RecordPlace, onHang = (): void => {}): Records {
  const noticeHang = (error: unknown): never => {
    if (error === noResponse) onHang()
    throw error
  }
  return {
    read: async name => await primary.call(recordTimeoutMs, 'readRecord', place, name).catch(noticeHang),
    replace: async (name, before, after) =>
      await primary.call(recordTimeoutMs, 'replaceRecord', place, name, before, after).catch(noticeHang)
  }
}

/** Counts limits in the primary process, so one limit holds across all workers. */
export class IpcBuckets implements TokenBuckets {
  readonly #primary: PrimaryCalls
  readonly #fallback: TokenBuckets

  constructor (primary: PrimaryCalls, fallback: TokenBuckets) {
    this.#primary = primary
    this.#fallback = fallback
  }

  async take (clientId: string, allowance: ClientRateLimit, count = 1): Promise<number> {
    return await this.#primary.call(takeTimeoutMs, 'take', clientId, allowance, count).catch(
      async () => await this.#fallback.take(clientId, allowance, count)
    )
  }

  async level (clientId: string, allowance: ClientRateLimit, atMost?: number): Promise<number> {
    return await this.#primary.call(takeTimeoutMs, 'level', clientId, allowance, atMost).catch(
      async () => await this.#fallback.level(clientId, allowance, atMost)
    )
  }

  refund (clientId: string, allowance: ClientRateLimit): void {
    this.#primary.call(takeTimeoutMs, 'refund', clientId, allowance).catch(() => {})
  }
}

/** Log of the entries of a host, on the disk or in shared memory, with the records in its folder. */
export interface EntryLog {
  readonly settings: LogSettings
  readonly records: Records
  /** Returns the methods of the keeper of the log, which calls those of a process. */
  readonly keeperFor: (member: LogMember) => LogKeeper
  /** Gives up the log and the records that this process holds. */
  readonly close: () => Promise<void>
}

// Allows for a worker that waits until another worker has copied entries.
const callMs = 5000
// Allows for a purge, which waits for all workers.
const purgeMs = 8000

/**
 * Returns the entry log of all workers for one of them, which reaches the log through the primary process. The primary
 * process calls the worker's tier.
 */
export function entryLogThrough (
  primary: Pick<IpcCalls<PrimaryMethods>, 'call'>,
  settings: LogSettings,
  tier: Deferred<LogMember>
): EntryLog {
  const keeper = methodsOf(primary, {
    joinLog: callMs,
    beginSegment: callMs,
    endEviction: callMs,
    announce: callMs,
    purgeLog: purgeMs
  })
  return {
    settings,
    records: recordsThrough(primary, 'log'),
    keeperFor: member => {
      tier.resolve(member)
      return {
        ...keeper,
        isShared: true,
        announce: stored => keeper.announce(stored).catch(() => {}),
        purgeLog: async (...purge) =>
          await keeper.purgeLog(...purge).catch((error: unknown) => {
            // An error response would reach the operator, but the tier repeats the purge by itself.
            throw new Error((error as Error).message)
          })
      }
    },
    close: async () => {}
  }
}

/** Returns the methods of the tier of a worker, which the keeper of the log calls once the worker runs. */
export function memberOf (worker: { readonly calls: Pick<IpcCalls<WorkerMethods>, 'call'> }): LogMember {
  return methodsOf<WorkerMethods, keyof LogMember>({ call: async (...called) => await worker.calls.call(...called) }, {
    applyPurge: callMs,
    learn: callMs,
    evict: callMs,
    resetLog: callMs
  })
}

/** Returns what the keeper calls of the tier of this worker, once there is one. */
export function memberMethodsOf (tier: Promise<LogMember>): LogMember {
  return {
    applyPurge: async purge => await (await tier).applyPurge(purge),
    learn: async stored => await (await tier).learn(stored),
    evict: async (...evicted) => await (await tier).evict(...evicted),
    resetLog: async () => await (await tier).resetLog()
  }
}
