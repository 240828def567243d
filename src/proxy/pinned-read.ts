import { type Space } from '../chain/space.js'
import { describeUnusableChains } from '../chain/describe-chain-mismatch.js'
import { classOf, keysOf, type Read, type ReadClass, type ReadKeys } from '../api/read.js'
import { type ResponsePosition } from '../api/position.js'
import { type RequestingClient } from '../upstreams/upstream-request.js'
import { type ErrorResponse, unavailableError } from '../api/error-response.js'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'

/** Parts that know the chain of a read. */
export interface PinParts {
  readonly tracker: Tracker
  readonly upstreamPool: UpstreamPool
  /** Resolves the chain and position from an upstream, or from Redis if no upstream responds in time. */
  readonly resolveChain: () => Promise<void>
}

/** Client that sent a read. */
export interface ReadClient extends RequestingClient {
  /**
   * Charges the client before an upstream request, and rejects beyond its limit; undefined if there is nothing to
   * charge.
   */
  readonly admit: (() => Promise<void>) | undefined
  /** True if the client asks for a response that is as new as its request. */
  readonly bypassesFollowing?: boolean
}

/** Stands for the client of varve's own work. */
export const noClient: ReadClient = { id: undefined, admit: undefined }

/** Read of a client in one space, which its keys name (law 7: chains never mix). */
export interface PinnedRead {
  readonly read: Read
  readonly readClass: ReadClass
  readonly space: Space
  readonly keys: ReadKeys
  readonly client: ReadClient
  /** True for a latest read of state, unless its client bypasses following. */
  readonly acceptsFollowedHead: boolean
  /** Time at which the read arrived; undefined means now. */
  readonly arrivedAtMs: number | undefined
  /** Followed head that a latest read is served at; its keys name that version. */
  readonly followedAt?: ResponsePosition
}

/** Pins a read to the present chain, once that is known; rejects with 503 while no upstream has reported a chain. */
export async function pinToCurrentChain (
  context: PinParts,
  read: Read,
  client: ReadClient,
  arrivedAtMs?: number
): Promise<PinnedRead> {
  if (context.tracker.space === undefined) await context.resolveChain()
  const { space } = context.tracker
  if (space === undefined) throw noUpstreamError(context, 'no upstream has been reached yet, so the chain is unknown')
  return pinTo(space, read, client, arrivedAtMs)
}

/** Pins a read to a known chain. */
export function pinTo (space: Space, read: Read, client = noClient, arrivedAtMs?: number): PinnedRead {
  const readClass = classOf(read)
  return {
    read,
    readClass,
    space,
    keys: keysOf(read, space),
    client,
    acceptsFollowedHead: readClass === 'moving' && read.endpoint.keyedBy === 'version' &&
      client.bypassesFollowing !== true,
    arrivedAtMs
  }
}

/**
 * Builds the 503 of a request that needs an upstream. Its message says what is wrong with the chain of all upstreams,
 * if anything is, else the given reason.
 */
export function noUpstreamError (
  { upstreamPool, tracker }: Pick<PinParts, 'upstreamPool' | 'tracker'>,
  reason: string
): ErrorResponse {
  return unavailableError(describeUnusableChains(upstreamPool.upstreams, tracker) ?? reason)
}
