import { type Tracker } from './tracker.js'
import { type Member } from '../upstreams/member.js'

/** What a message on a chain mismatch is made of. */
export type Serves = Pick<Member, 'fencedChainId'> & { readonly node: Pick<Member['node'], 'name'> }

/** Names the upstreams on another chain than the configured one, as long as none on that chain has been reached. */
export function chainMismatch (
  members: readonly Serves[],
  { configuredId, position }: Pick<Tracker, 'configuredId' | 'position'>
): string | undefined {
  if (configuredId === undefined || position !== undefined) return undefined
  const others = members.flatMap(({ node, fencedChainId }) =>
    fencedChainId === undefined ? [] : [`${node.name} serves chain ${fencedChainId}`]
  )
  return others.length === 0
    ? undefined
    : `no upstream serves chain ${configuredId}, which chainId expects: ${others.join(', ')}`
}
