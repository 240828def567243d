import { type LogKeeper, type LogMember } from '../cache/disk-keeper.js'
import { type SpacePlace } from '../chain/space-places.js'
import { Deferred } from './deferred.js'
import { type IpcCalls } from './ipc-calls.js'
import { type LogMethods, type LogSettings, type PrimaryMethods, type WorkerMethods } from './messages.js'

/** Log of the disk tier of a host, with the spaces in its folder. */
export interface HostLog {
  readonly settings: LogSettings
  readonly place: SpacePlace & { readonly error: string | undefined }
  /** Returns the methods of the keeper of the log, which calls those of a process. */
  keeperFor(member: LogMember): LogKeeper
  /** Gives up what this process holds. */
  close(): Promise<void>
}

// A worker may wait for what another copies.
const segmentTimeoutMs = 5000
const applyTimeoutMs = 5000
// A purge waits for all workers.
const purgeTimeoutMs = 8000
const spacesTimeoutMs = 750

/** The log of all workers as one of them reaches it, through the primary process. */
export class IpcLog implements HostLog {
  readonly settings: LogSettings
  readonly place: HostLog['place']
  readonly #primary: Pick<IpcCalls<PrimaryMethods>, 'call'>
  readonly #member: Deferred<LogMember>

  /** `member` gets the tier that the primary process calls. */
  constructor (
    settings: LogSettings,
    primary: Pick<IpcCalls<PrimaryMethods>, 'call'>,
    member: Deferred<LogMember>
  ) {
    this.settings = settings
    this.#primary = primary
    this.#member = member
    this.place = new IpcPlace(primary)
  }

  keeperFor (member: LogMember): LogKeeper {
    const primary = this.#primary
    this.#member.resolve(member)
    return {
      isShared: true,
      joinLog: async () => await primary.call(segmentTimeoutMs, 'joinLog'),
      beginSegment: async what => await primary.call(segmentTimeoutMs, 'beginSegment', what),
      endEviction: async (...ended) => await primary.call(segmentTimeoutMs, 'endEviction', ...ended),
      announce: stored => primary.call(segmentTimeoutMs, 'announce', stored).catch(() => {}),
      purgeLog: async (...purge) =>
        await primary.call(purgeTimeoutMs, 'purgeLog', ...purge).catch((error: unknown) => {
          // An error response would be the operator's, but the tier repeats the purge.
          throw new Error((error as Error).message)
        })
    }
  }

  async close (): Promise<void> {}
}

/** Spaces in the folder of the log, through the primary process. */
class IpcPlace implements SpacePlace {
  readonly #primary: Pick<IpcCalls<PrimaryMethods>, 'call'>
  #error: string | undefined

  constructor (primary: Pick<IpcCalls<PrimaryMethods>, 'call'>) {
    this.#primary = primary
  }

  /** Reason why the last change failed. */
  get error (): string | undefined {
    return this.#error
  }

  async read (chainId: number): ReturnType<SpacePlace['read']> {
    return await this.#primary.call(spacesTimeoutMs, 'readSpaces', chainId)
  }

  async put (...[record, replacesAll = false]: Parameters<SpacePlace['put']>): ReturnType<SpacePlace['put']> {
    try {
      const list = await this.#primary.call(spacesTimeoutMs, 'putSpace', record, replacesAll)
      this.#error = undefined
      return list
    } catch (error) {
      this.#error = (error as Error).message
      throw error
    }
  }

  async remembered (): ReturnType<SpacePlace['remembered']> {
    return await this.#primary.call(spacesTimeoutMs, 'rememberedSpaces')
  }
}

/** Returns the methods of a worker that the keeper of the log calls. */
export function memberOf (worker: { readonly calls: Pick<IpcCalls<WorkerMethods>, 'call'> }): LogMember {
  return {
    applyPurge: async purge => await worker.calls.call(applyTimeoutMs, 'applyPurge', purge),
    learn: async stored => await worker.calls.call(applyTimeoutMs, 'learn', stored),
    evict: async (...evicted) => await worker.calls.call(applyTimeoutMs, 'evict', ...evicted),
    resetLog: async () => await worker.calls.call(applyTimeoutMs, 'resetLog')
  }
}

/** Returns what a worker calls of a log that this process keeps; each call rejects if there is none. */
export function logMethodsFor (member: LogMember, log: HostLog | undefined): LogMethods {
  const keeper = log?.keeperFor(member)
  const withLog = (): HostLog => {
    if (log === undefined) throw new Error('no log')
    return log
  }
  return {
    ...keeper as LogKeeper,
    readSpaces: async chainId => await withLog().place.read(chainId),
    putSpace: async (record, replacesAll) => await withLog().place.put(record, replacesAll),
    rememberedSpaces: async () => await withLog().place.remembered()
  }
}

/** Returns what the keeper calls of the tier of a worker, once there is one. */
export function memberMethodsOf (member: Promise<LogMember>): LogMember {
  return {
    applyPurge: async purge => await (await member).applyPurge(purge),
    learn: async stored => await (await member).learn(stored),
    evict: async (...evicted) => await (await member).evict(...evicted),
    resetLog: async () => await (await member).resetLog()
  }
}
