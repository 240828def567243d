import { errors } from 'undici'
import { Unresolved } from './names.js'
import { NoTurn } from './budget.js'

/** Why no whole answer came: the closed list that the upstream metric shows in place of a status. */
export const failureReasons = [
  'timeout',
  'refused',
  'cut_short',
  'garbage',
  'unreachable',
  'unresolved',
  'busy',
  'exhausted',
  'taken_back'
] as const

// What this machine has run out of.
const ours = new Set<unknown>(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'])

/** One reason of the closed list. */
export type FailureReason = typeof failureReasons[number]

/** A node gave no whole answer. */
export class NodeFailure extends Error {
  readonly reason: FailureReason

  constructor (node: string, reason: FailureReason, cause: unknown) {
    super(`${node}: ${reason}`, { cause })
    this.reason = reason
  }

  /** What an operator is told. */
  get told (): string {
    if (this.reason !== 'unresolved') return this.reason
    return this.cause instanceof Unresolved ? this.cause.message : 'its name could not be resolved'
  }

  /** Names what went wrong beneath. */
  static of (node: string, error: unknown): NodeFailure {
    return error instanceof NodeFailure ? error : new NodeFailure(node, reasonOf(error), error)
  }
}

/** Whether a connection that had carried answers before died under the request. */
export function isDeadConnection (error: unknown): boolean {
  return error instanceof errors.SocketError && (error.socket?.bytesRead ?? 0) > 0
}

/**
 * Whether a node was never asked, for lack of a turn or of what this machine has run out of: it may well have the
 * answer.
 */
export function wasNotAsked (error: unknown): boolean {
  return error instanceof NodeFailure && (error.reason === 'busy' || error.reason === 'exhausted')
}

/** Whether a question was taken back, or never sent: that says nothing of the node. */
export function saysNothing (failure: NodeFailure): boolean {
  return failure.reason === 'taken_back' || wasNotAsked(failure)
}

function reasonOf (error: unknown): FailureReason {
  if (error instanceof NoTurn) return 'busy'
  if (error instanceof Unresolved) return 'unresolved'
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) return 'garbage'
  if (
    error instanceof errors.ConnectTimeoutError || error instanceof errors.HeadersTimeoutError ||
    error instanceof errors.BodyTimeoutError || nameOf(error) === 'TimeoutError'
  ) return 'timeout'
  if (error instanceof errors.SocketError || error instanceof errors.ResponseContentLengthMismatchError) {
    return 'cut_short'
  }
  if (nameOf(error) === 'AbortError') return 'taken_back'
  const code = codeOf(error)
  if (code === 'ECONNREFUSED') return 'refused'
  // Nothing was sent, for want of a file descriptor or a port of one's own: that says nothing of the node.
  if (ours.has(code)) return 'exhausted'
  return code === 'ECONNRESET' || code === 'EPIPE' ? 'cut_short' : 'unreachable'
}

function nameOf (error: unknown): string | undefined {
  return error instanceof Error ? error.name : undefined
}

function codeOf (error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
