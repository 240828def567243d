import { type Answer } from '../api/answer.js'
import { type Member } from './member.js'

/** What a node must be like to be asked for something that nobody waits for. */
export interface Spare {
  /** A version that it must surely have. */
  readonly version: bigint
  /** The release that it is to run. */
  readonly release: string | undefined
  /** Whether one of another release can tell as well. */
  readonly takesOthers: boolean
}

/** An answer, and who gave it. */
export interface Word {
  readonly node: string
  readonly answer: Answer
}

/**
 * The nodes that can be asked for what nobody waits for: those that have more than half of their turns left after it,
 * of the wanted release first.
 */
export function spareIn (members: readonly Member[], { version, release, takesOthers }: Spare): Member[] {
  const able = members.filter(({ isUp, isBelieved, health, window, node }) =>
    isUp && isBelieved && health.isWell && window !== undefined && version >= window.oldest && version <= window.head &&
    node.budget.hasSpare
  )
  const same = able.filter(({ node }) => node.release === release)
  return same.length === 0 && takesOthers ? able : same
}
