import { z } from 'zod'
import { type WrittenBytes } from './bytes.js'

/** The name and version of the form that a recording has, which its first line says. */
export const form = { name: 'varve-recording', version: 1 } as const

// What may stand in a first line or a header line, so that whatever is read can be sent.
const method = z.string('expected a method').regex(/^[A-Z][A-Z-]{0,31}$/, 'expected a method, such as GET')
const target = z.string('expected a target').regex(/^\/[\x21-\x7e]*$/, 'expected a target from / on, such as /v1')
const name = z.string('expected a header name').regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'expected a header name')
const value = z.string('expected a header value').regex(
  /^[\t\x20-\x7e\x80-\xff]*$/,
  'expected a header value without line breaks'
)
const headers = z.array(
  z.tuple([name, value], 'expected a name and a value'),
  'expected a list of header lines, each ["name", "value"]'
)
const ms = z.number('expected a number of milliseconds').min(0, 'expected a number of milliseconds')

const bytes = {
  /** The body, where it is text. */
  body: z.string('expected a text').optional(),
  /** The body, where it is none. */
  base64: z.base64('expected base64').optional(),
  /** Why the body is not here. */
  leftOut: z.string('expected the reason in words').optional()
}

const request = z.strictObject({ method, target, headers, ...bytes }, 'expected a request')
const answer = z.strictObject({
  status: z.int('expected a status').min(200, 'expected a status from 200 to 999').max(
    999,
    'expected a status from 200 to 999'
  ),
  headers,
  ...bytes,
  /** Who ended it within its body. */
  broken: z.enum(['node', 'client'], 'expected one of node, client').optional()
}, 'expected an answer')

const head = z.strictObject({
  form: z.literal(form.name, `expected "${form.name}"`),
  version: z.literal(
    form.version,
    `expected ${form.version}: a file of another release of varve may have another form`
  ),
  /** When it was begun. */
  made: z.iso.datetime('expected a time such as 2026-11-22T10:00:00.000Z'),
  /** By which release. */
  by: z.string('expected a text')
}, 'expected the first line of a recording')

const pair = z.strictObject({
  /** When the question came, counted from the beginning. */
  at: ms,
  /** How long it took until the answer began. */
  head: ms.optional(),
  /** How long it took until all was over. */
  took: ms,
  request,
  answer: answer.optional(),
  /**
   * No answer began: the connection to the node was lost or not to be had, or nothing came for as long as the client
   * waited.
   */
  none: z.enum(['lost', 'silent'], 'expected one of lost, silent').optional(),
  /** The system's word for what failed. */
  why: z.string('expected a text').optional()
}, 'expected a question and its answer')
  .refine(({ answer, none }) => (answer === undefined) !== (none === undefined), 'expected either an answer or none')
  .refine(({ request, answer = {} }) => isOne(request) && isOne(answer), 'expected one of body, base64 and leftOut')

function isOne ({ body, base64, leftOut }: WrittenBytes): boolean {
  return [body, base64, leftOut].filter(one => one !== undefined).length <= 1
}

/** The first line of a recording. */
export type Head = z.output<typeof head>

/** A question and what came of it: one line of a recording. */
export type Pair = z.output<typeof pair>

/** What was answered. */
export type RecordedAnswer = z.output<typeof answer>

/** Header lines in their order, those of one name each by itself. */
export type Lines = ReadonlyArray<readonly [name: string, value: string]>

/** What a line is, or what was expected in its place. */
export type Checked<T> = { readonly value: T } | { readonly mistake: string }

/** Reads a first line. */
export function readHead (text: string): Checked<Head> {
  return checked(head, text)
}

/** Reads any other line. */
export function readPair (text: string): Checked<Pair> {
  return checked(pair, text)
}

function checked<T> (schema: z.ZodType<T>, text: string): Checked<T> {
  const tree = parsed(text)
  if (tree === undefined) return { mistake: 'expected a line of JSON' }
  const { data, error } = schema.safeParse(tree)
  return error === undefined ? { value: data as T } : { mistake: error.issues.slice(0, 1).map(inWords).join('') }
}

function inWords (issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') {
    return `${issue.path.map(key => `${String(key)}.`).join('')}${issue.keys.join(', ')}: unknown member`
  }
  return issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`
}

function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
