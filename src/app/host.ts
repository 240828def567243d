import { type TokenBuckets, LocalBuckets } from '../clients/token-buckets.js'
import { type Carrier, noCarrier } from '../peers/peers.js'
import { type ProbesThroughPrimary } from '../upstreams/shared-poller.js'
import { type UsedFolder } from './local-disk-folder.js'

/** Host of a process, with the processes beside it. */
export interface Host {
  /** Names the processes that have the same configuration. */
  readonly configuration: string
  readonly carrier: Carrier
  /** Counts what clients consume in all processes. */
  readonly buckets: TokenBuckets
  /** Names of upstreams that are out of service already. */
  readonly cordoned: readonly string[]
  /** Folder of the disk tier, if another process opened it for all. */
  readonly folder: UsedFolder | undefined
  /** Sends probes through a process that polls for all; absent, this process polls by itself. */
  readonly probes: Pick<ProbesThroughPrimary, 'transportTo' | 'onPollResult'> | undefined
  /** Resolves with true if this process may do for all what the lease names. */
  lease(name: string): Promise<boolean>
  /** Purges in the other processes what this one has found to be wrong. */
  purgeOthers(body: Buffer): void
}

/** Returns the host of a process that runs alone. */
export function hostOfOne (now: () => number): Host {
  return {
    configuration: 'one',
    carrier: noCarrier,
    buckets: new LocalBuckets(now),
    cordoned: [],
    folder: undefined,
    probes: undefined,
    lease: async () => true,
    purgeOthers: () => {}
  }
}
