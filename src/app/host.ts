import { randomUUID } from 'node:crypto'
import { type TokenBuckets, LocalBuckets } from '../clients/token-buckets.js'
import { type Carrier, noCarrier } from '../peers/peers.js'
import { type HostLog } from '../peers/ipc-log.js'

/** Host of a process, with the processes beside it. */
export interface Host {
  /** Names this host, as one that has this configuration: its processes are one peer of other hosts. */
  readonly configuration: string
  readonly carrier: Carrier
  /** Counts what clients consume in all processes. */
  readonly buckets: TokenBuckets
  /** Names of upstreams that are out of service already. */
  readonly cordoned: readonly string[]
  /** Log of all processes, if another one keeps it. */
  readonly log: HostLog | undefined
  /** Resolves with true if this process may do for all what the lease names, for a time; rejects if that is unknown. */
  lease(name: string, ms: number): Promise<boolean>
  /** Gives a lease back; resolves with true if no other process has taken it meanwhile. */
  release(name: string): Promise<boolean>
  /** Purges in the other processes what this one has found to be wrong. */
  purgeOthers(body: Buffer): void
}

/** Returns the host of a process that runs alone. */
export function hostOfOne (now: () => number): Host {
  return {
    configuration: randomUUID(),
    carrier: noCarrier,
    buckets: new LocalBuckets(now),
    cordoned: [],
    log: undefined,
    lease: async () => true,
    release: async () => true,
    purgeOthers: () => {}
  }
}
