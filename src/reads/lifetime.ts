import { mediaTypes } from './accept.js'
import { type Answer, headerOf, isMissingItem, mediaTypeOf } from './answer.js'
import { type Read } from './read.js'

/** Why an answer was not kept: the closed list that metric, log and Cache-Status share (law 3). */
export const notKeptReasons = [
  'status', 'no_position', 'wrong_chain', 'wrong_type', 'wrong_coding', 'vetoed', 'outside_window', 'too_large', 'incomplete'
] as const

/** One reason of the closed list. */
export type NotKeptReason = typeof notKeptReasons[number]

/** What an answer is judged against. */
export interface Bounds {
  readonly maxEntryBytes: number
  readonly ignoreCacheControl: boolean
}

// Names in Vary that varve keys by or never sends upstream; any other means the answer depends on what is not in the key.
const harmlessVary = new Set(['accept', 'accept-encoding', 'origin'])

/**
 * Why an answer cannot be a true one to the read, so that it is neither kept nor handed on:
 * a node can answer 200 with an error body, and a gateway with a page of its own (facts, section 5).
 */
export function untruth (read: Read, answer: Answer): NotKeptReason | undefined {
  // Nothing was asked for in parts, under a condition or elsewhere.
  if (answer.status !== 200) return answer.status < 400 ? 'status' : undefined
  if (!answer.isFramed) return 'incomplete'
  if (headerOf(answer, 'content-encoding')?.toLowerCase().replace('identity', '')) return 'wrong_coding'
  if (answer.stamped === undefined && read.endpoint.name !== 'info') return 'no_position'
  return rightType(read, answer) ? undefined : 'wrong_type'
}

/** Why a whole answer to a read at an explicit version must not be kept; undefined when it is proven history. */
export function whyNotKept (read: Read, answer: Answer, bounds: Bounds): NotKeptReason | undefined {
  if (answer.status !== 200 && !isMissingItem(answer)) return 'status'
  const untrue = untruth(read, answer)
  if (untrue !== undefined) return untrue
  if (answer.stamped === undefined) return 'no_position'
  if (!bounds.ignoreCacheControl && isVetoed(answer)) return 'vetoed'
  const { head, oldest } = answer.stamped.position
  if (read.version === undefined || read.version < oldest.version || read.version > head.version) return 'outside_window'
  return answer.body.length > bounds.maxEntryBytes ? 'too_large' : undefined
}

function rightType (read: Read, answer: Answer): boolean {
  // Node info ignores Accept (facts, section 3).
  const expected = read.endpoint.name === 'info' ? 'json' : read.accept
  return mediaTypeOf(answer) === mediaTypes[expected]
}

function isVetoed (answer: Answer): boolean {
  const directives = listOf(headerOf(answer, 'cache-control')).map(item => item.split('=', 1).join(''))
  if (directives.some(name => name === 'no-store' || name === 'private' || name === 'no-cache')) return true
  return listOf(headerOf(answer, 'vary')).some(name => !harmlessVary.has(name))
}

function listOf (header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(',').map(item => item.trim()).filter(item => item !== '')
}
