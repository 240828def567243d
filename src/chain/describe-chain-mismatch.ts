import { type Tracker } from './tracker.js'
import { type Upstream } from '../upstreams/upstream.js'

/** Fields of an upstream that describe a chain mismatch. */
export type ReportedChain = Pick<Upstream, 'name' | 'quarantinedChainId' | 'quarantineReason'>

/** Names the upstreams on another chain than the configured one, until an upstream on the configured chain responds. */
export function describeChainMismatch (
  upstreams: readonly ReportedChain[],
  { configuredId, position }: Pick<Tracker, 'configuredId' | 'position'>
): string | undefined {
  if (configuredId === undefined || position !== undefined) return undefined
  const mismatches = upstreams.flatMap(({ name, quarantinedChainId }) =>
    quarantinedChainId === undefined ? [] : [`${name} serves chain ${quarantinedChainId}`]
  )
  return mismatches.length === 0
    ? undefined
    : `no upstream serves chain ${configuredId}, which chainId expects: ${mismatches.join(', ')}`
}

/** Says why a read that needs an upstream gets 503, if the reason is the chain: a mismatch, or all are quarantined. */
export function describeUnusableChains (
  upstreams: readonly ReportedChain[],
  tracker: Pick<Tracker, 'configuredId' | 'position'>
): string | undefined {
  const mismatch = describeChainMismatch(upstreams, tracker)
  if (mismatch !== undefined) return mismatch
  const isAnyUsable = upstreams.some(({ quarantineReason }) => quarantineReason === undefined)
  if (isAnyUsable || upstreams.length === 0) return undefined
  return `every upstream is quarantined: ${
    upstreams.map(({ name, quarantineReason }) => `${name}: ${quarantineReason}`).join('; ')
  }`
}
