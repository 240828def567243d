import { type Logger } from 'pino'
import { type Member } from '../upstreams/member.js'
import { type NodeState, stateOf } from '../upstreams/node-state.js'

/**
 * Tells of a node's state where it has changed since it was told last: a line a change and not a line a question,
 * however often it is called.
 */
export function stateLog (member: Member, log: Logger): () => void {
  const node = member.node.name
  let last: NodeState | undefined
  return () => {
    const { name, reason } = stateOf(member)
    if (name === last) return
    last = name
    tell(name, reason)
  }

  function tell (name: NodeState, reason: string | undefined): void {
    switch (name) {
      case 'unknown':
        return
      case 'up':
        return log.info({ node }, 'the node answers')
      case 'resting':
        return log.warn({ node, reason }, 'the node has asked for rest')
      case 'down':
        return log.warn({ node, reason }, 'the node does not answer as a node does')
      case 'fenced':
        return log.error({ node, reason }, 'the node serves another chain')
    }
  }
}
