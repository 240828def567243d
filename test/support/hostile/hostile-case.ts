import { readFileSync } from 'node:fs'
import { z } from 'zod'

const request = z.string().min(1)
const pattern = z.string().transform(text => patternOf(text))
// Matches header names in any case.
const linePattern = z.string().transform(text => new RegExp(patternOf(text).source, 'im'))

const check = z.strictObject({
  status: z.array(z.int()),
  statuses: z.array(z.int()),
  cacheable: z.boolean(),
  if_stored: z.enum(['wrong', 'wasteful']),
  must_not_share_with: request,
  other_must_be: z.enum(['json', 'bcs']),
  same_as: request,
  still_kept: request,
  must_not_store_status: z.int(),
  other_body_nonempty: request,
  upstream: z.int(),
  repeat: z.int().min(2),
  upstream_sees: pattern,
  upstream_never_sees: pattern,
  answers: z.int(),
  ordered: z.literal(true),
  closes: z.boolean(),
  response_has: linePattern,
  response_never: linePattern,
  body_has: pattern,
  body_never: pattern,
  body_never_next: pattern,
  close_upstream: z.literal(true),
  may_differ: z.literal(true),
  slow: z.literal(true),
  alive: z.literal(true)
}).partial()

const hostileCase = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]+$/),
  class: z.string(),
  raw: z.string().min(1),
  encoding: z.literal('latin1').optional(),
  prime: request.optional(),
  upstream_answer: z.string().optional(),
  then: z.enum(['end', 'reset']).optional(),
  expect: z.string().min(3),
  why: z.string().min(5),
  check
})

/** A hostile request with the behaviour of a correct cache. */
export type HostileCase = z.infer<typeof hostileCase>

/** Names of the checks of a case. */
export type CheckName = keyof HostileCase['check']

/** Reads one line of a cases file; throws on a field that the runner would not check. */
export function readCase (line: string): HostileCase {
  return hostileCase.parse(JSON.parse(line))
}

/** Reads a cases file, one case a line; throws on duplicate ids, because titles need them to be unique. */
export function readCases (file: string): HostileCase[] {
  const cases = readFileSync(file, 'utf8').split('\n').filter(line => line !== '').map(readCase)
  const ids = cases.map(({ id }) => id)
  const twice = ids.filter((id, at) => ids.indexOf(id) !== at)
  if (twice.length > 0) throw new Error(`${file}: more than once: ${twice.join(', ')}`)
  return cases
}

/** Returns the bytes of a request, in the pieces to send. */
export function piecesOf (raw: string, encoding: HostileCase['encoding']): Buffer[] {
  return raw.split('<<PAUSE>>').map(piece =>
    Buffer.from(
      piece.replace(/<<REPEAT ([^]+?) (\d+)>>/g, (_all, text: string, times: string) => text.repeat(Number(times))),
      encoding ?? 'utf8'
    )
  )
}

// Converts patterns of other languages: (?i) in front.
function patternOf (text: string): RegExp {
  return text.startsWith('(?i)') ? new RegExp(text.slice(4), 'im') : new RegExp(text, 'm')
}
