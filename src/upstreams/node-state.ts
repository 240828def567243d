import { type Member } from './member.js'

/**
 * How a node is: nothing is known yet, it answers, it has asked for rest, it does not answer as a node does, or it is
 * not asked for data.
 */
export const nodeStates = ['unknown', 'up', 'resting', 'down', 'fenced'] as const

/** One of the closed list. */
export type NodeState = typeof nodeStates[number]

/** How it is, and the reason where that is not well. */
export function stateOf (
  { fence, isUnheard, isUp, health }: Member
): { readonly name: NodeState, readonly reason: string | undefined } {
  if (fence !== undefined) return { name: 'fenced', reason: fence }
  if (isUnheard) return { name: 'unknown', reason: undefined }
  if (!isUp) return { name: 'down', reason: health.lastFailure ?? 'it does not say where it stands' }
  return health.isResting ? { name: 'resting', reason: 'it has answered 429' } : { name: 'up', reason: undefined }
}
