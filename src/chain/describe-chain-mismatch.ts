import { type Tracker } from './tracker.js'
import { type Upstream } from '../upstreams/upstream.js'

/** Fields of an upstream that describe a chain mismatch. */
export type ReportedChain = Pick<Upstream, 'quarantinedChainId'> & { readonly client: Pick<Upstream['client'], 'name'> }

/** Names the upstreams on another chain than the configured one, until an upstream on the configured chain responds. */
export function describeChainMismatch (
  upstreams: readonly ReportedChain[],
  { configuredId, position }: Pick<Tracker, 'configuredId' | 'position'>
): string | undefined {
  if (configuredId === undefined || position !== undefined) return undefined
  const mismatches = upstreams.flatMap(({ client, quarantinedChainId }) =>
    quarantinedChainId === undefined ? [] : [`${client.name} serves chain ${quarantinedChainId}`]
  )
  return mismatches.length === 0
    ? undefined
    : `no upstream serves chain ${configuredId}, which chainId expects: ${mismatches.join(', ')}`
}
