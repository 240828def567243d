import { type LogKeeper, type LogMember } from '../cache/disk-keeper.js'
import { type Deferred } from './deferred.js'
import { type IpcCalls, methodsOf } from './ipc-calls.js'
import { recordsThrough } from './ipc-carrier.js'
import { type LogSettings, type PrimaryMethods, type WorkerMethods } from './messages.js'
import { type Records } from './records.js'

/** Log of the disk tier of a host, with the records in its folder. */
export interface HostLog {
  readonly settings: LogSettings
  readonly records: Records
  /** Returns the methods of the keeper of the log, which calls those of a process. */
  readonly keeperFor: (member: LogMember) => LogKeeper
  /** Gives up what this process holds. */
  readonly close: () => Promise<void>
}

// A worker may wait for what another copies.
const callMs = 5000
// A purge waits for all workers.
const purgeMs = 8000

/** Returns the log of all workers as one of them reaches it, through the primary process, which calls its tier. */
export function logThrough (
  primary: Pick<IpcCalls<PrimaryMethods>, 'call'>,
  settings: LogSettings,
  tier: Deferred<LogMember>
): HostLog {
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
            // An error response would be the operator's, but the tier repeats the purge.
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
