import { mediaTypes } from '../api/accept.js'

/** What is asked: rebuilt from the canonical read, so that nothing unkeyed reaches a node (law 1). */
export interface Question {
  readonly endpoint: string
  readonly method: string
  /** From /v1 on. */
  readonly target: string
  /** What the answer depends on, by lower-case name; nothing configured replaces it. */
  readonly headers: Readonly<Record<string, string>>
  /** Who asks and under which trace, for the node's own log. */
  readonly about?: Readonly<Record<string, string>>
  readonly body?: string | Buffer | undefined
  /** Who asks: clients take turns where a node has more to do than it may. */
  readonly client?: string | undefined
  /** Varve asks for itself, how the node is and where it stands. */
  readonly isOwn?: boolean
  /**
   * Whether asking twice asks for nothing more, so that a dead connection may be answered by another (RFC 9110, section
   * 9.2.2).
   */
  readonly isIdempotent: boolean
}

/** What a node is asked of itself, for nobody. */
export function questionOfItself (target: string): Question {
  return {
    endpoint: 'other',
    method: 'GET',
    target,
    headers: { accept: mediaTypes.json },
    isIdempotent: true,
    isOwn: true
  }
}
