import { z } from 'zod'
import { casesIn } from '../cases.js'
import { fill } from './lies.js'

const request = z.string().min(1)
// Converts patterns of other languages, with (?i) in front.
const patternOf = (text: string): RegExp =>
  text.startsWith('(?i)') ? new RegExp(text.slice(4), 'im') : new RegExp(text, 'm')
const pattern = z.string().transform(patternOf)
// Matches header names in any case.
const linePattern = z.string().transform(text => new RegExp(patternOf(text).source, 'im'))

const check = z.strictObject({
  status: z.array(z.int()),
  statuses: z.array(z.int()),
  cacheable: z.boolean(),
  if_stored: z.enum(['wrong', 'wasteful']),
  must_not_share_with: request,
  same_as: request,
  still_kept: request,
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
  raw: request,
  encoding: z.literal('latin1').optional(),
  prime: request.optional(),
  upstream_answer: z.string().optional(),
  then: z.enum(['end', 'reset']).optional(),
  expect: z.string().min(3),
  why: z.string().min(5),
  check
})

const override = z.strictObject({
  id: z.string(),
  not: z.array(z.string()),
  instead: z.record(z.string(), z.unknown()),
  because: z.string().min(5)
})

/** A hostile request with the behaviour of a correct cache. */
export type HostileCase = z.infer<typeof hostileCase>

/** Returns every case by its file, with the checks that are overridden replaced; ids are unique, as titles need. */
export function hostileCases (): ReadonlyArray<{ file: string, cases: readonly HostileCase[] }> {
  const overrides = new Map(casesIn('overrides.jsonl').map(line => override.parse(line)).map(each => [each.id, each]))
  const ids = new Set<string>()
  const files = ['hostile.jsonl', 'own.jsonl'].map(file => ({
    file,
    cases: casesIn<{ id: string, check: Record<string, unknown> }>(file).map(given => {
      if (ids.has(given.id)) throw new Error(`${file}: ${given.id} is there twice`)
      ids.add(given.id)
      const { not = [], instead } = overrides.get(given.id) ?? {}
      overrides.delete(given.id)
      const kept = Object.entries(given.check).filter(([name]) => !not.includes(name))
      return hostileCase.parse({ ...given, check: { ...Object.fromEntries(kept), ...instead } })
    })
  }))
  if (overrides.size > 0) throw new Error(`overrides.jsonl: no case is called ${[...overrides.keys()].join(', ')}`)
  return files
}

/** Returns the bytes of a request, in the pieces to send. */
export function piecesOf (raw: string, encoding: HostileCase['encoding']): Buffer[] {
  return raw.split('<<PAUSE>>').map(piece => Buffer.from(fill(piece, {}), encoding ?? 'utf8'))
}
