import { type Upstream } from './upstream.js'

/** Closed list of upstream states, as in /status.json and the label `state` of varve_upstream_state. */
export const upstreamStates = ['unknown', 'up', 'backing_off', 'down', 'quarantined'] as const

/** One state of the closed list. */
export type UpstreamState = typeof upstreamStates[number]

/** Returns the state, with the reason where it is not `up` or `unknown`. */
export function upstreamStateOf (
  { quarantineReason, isUnknown, isUp, health }: Upstream
): { readonly name: UpstreamState, readonly reason: string | undefined } {
  if (quarantineReason !== undefined) return { name: 'quarantined', reason: quarantineReason }
  if (isUnknown) return { name: 'unknown', reason: undefined }
  if (!isUp) return { name: 'down', reason: health.lastFailure ?? 'no position headers' }
  return health.isBackingOff ? { name: 'backing_off', reason: 'status 429' } : { name: 'up', reason: undefined }
}
