import { readAccept } from '../../api/accept.js'
import { keysOf } from '../../api/read.js'
import { matchEndpoint, readRequest } from '../../api/read-request.js'
import { bytesOf } from './bytes.js'
import { type Lines, type Pair } from './form.js'
import { targetToKeep } from './secrets.js'
import { valueOf } from './wire.js'

/** A question as it is compared with others. */
export interface Asked {
  readonly method: string
  readonly target: string
  readonly headers: Lines
  readonly body: Buffer
}

// What an answer of a node may depend on, in the words of who asks.
const telling = ['accept', 'accept-encoding', 'if-none-match', 'if-modified-since', 'range', 'origin']

/** The question of a recorded pair; undefined where its body was left out. */
export function askedIn ({ method, target, headers, ...body }: Pair['request']): Asked | undefined {
  return body.leftOut === undefined ? { method, target, headers, body: bytesOf(body) } : undefined
}

/** What two questions have in common that are the same to the letter, as far as an answer can depend on it. */
export function exactly ({ method, target, headers, body }: Asked): string {
  return [method, targetToKeep(target), ...telling.map(name => allOf(headers, name)), body.toString('latin1')].join(
    '\n'
  )
}

/**
 * What two questions have in common that mean the same, by the rules by which varve tells reads apart; of a route that
 * it does not know, by the same letters.
 */
export function inMeaning (asked: Asked): string {
  const { method, headers, body } = asked
  const target = targetToKeep(asked.target)
  const accept = allOf(headers, 'accept')
  const plainly = [method, readAccept(accept), target, body.toString('latin1')].join('\n')
  const match = matchEndpoint(target, method)
  if (match === undefined) return plainly
  try {
    const read = readRequest(match, { method, accept, contentType: valueOf(headers, 'content-type'), body }, {
      eventsDefault
    })
    return [method, keysOf(read, { id: '', generation: '' }).value].join('\n')
  } catch {
    // What varve refuses means to each node what it will.
    return plainly
  }
}

// Several lines of one name are one list (RFC 9110, section 5.3).
function allOf (headers: Lines, wanted: string): string {
  return headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value).join(', ')
}

// As nodes have it.
const eventsDefault = 25
