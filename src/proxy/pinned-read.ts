import { type Space } from '../chain/space.js'
import { describeUnusableChains } from '../chain/describe-chain-mismatch.js'
import { classOf, keysOf, type Read, type ReadClass, type ReadKeys } from '../api/read.js'
import { type Position, type ResponsePosition } from '../api/position.js'
import { type AttemptBudget } from '../upstreams/upstream-request.js'
import { type RequestBytes } from '../upstreams/in-flight-bytes.js'
import { unavailableError } from '../api/error-response.js'
import { type Span } from '../tracing/span.js'
import { type ProxyContext } from './proxy-context.js'

/** Client that sent a read. */
export interface ReadClient {
  /** Identity for fair queueing at busy upstreams; undefined for work of no client. */
  readonly id: string | undefined
  /** Bytes fetched for the request, which it holds until it is answered; undefined for work of no client. */
  readonly bytes?: RequestBytes | undefined
  /**
   * Charges the client before an upstream request, and rejects beyond its limit; undefined if there is nothing to
   * charge.
   */
  readonly admit: (() => Promise<void>) | undefined
  /** Upstream requests that the client request may still cost; undefined bounds each fetch alone. */
  readonly attempts?: AttemptBudget
  /** True if the client asks for a response that is as new as its request. */
  readonly bypassesFollowing?: boolean
  /** Present only if the request is traced. */
  readonly span?: Span | undefined
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
  readonly arrivedAtMs?: number
  /** Followed head that a latest read is served at; its keys name that version. */
  readonly followedAt?: ResponsePosition
}

/** Pins a read to the present chain; rejects with 503 while no upstream has reported a chain. */
export async function pinToCurrentChain (context: ProxyContext, read: Read, client: ReadClient): Promise<PinnedRead> {
  if (context.tracker.space === undefined) await context.resolveChain()
  const { space } = context.tracker
  if (space === undefined) {
    throw unavailableError(
      describeUnusableChains(context.upstreamPool.upstreams, context.tracker) ??
        'no upstream has been reached yet, so the chain is unknown'
    )
  }
  return pinTo(space, read, client)
}

/** Pins a read to a known chain. */
export function pinTo (space: Space, read: Read, client = noClient): PinnedRead {
  const readClass = classOf(read)
  return {
    read,
    readClass,
    space,
    keys: keysOf(read, space),
    client,
    acceptsFollowedHead: readClass === 'moving' && read.endpoint.keyedBy === 'version' &&
      client.bypassesFollowing !== true
  }
}

/** Returns the position for responses without one, such as node info; resolves the chain if the position is unknown. */
export async function resolvePosition (context: ProxyContext): Promise<Position | undefined> {
  if (context.tracker.position === undefined) await context.resolveChain()
  return context.tracker.position
}
