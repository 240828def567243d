import { z } from 'zod'
import { type RecordedBody } from './recorded-body.js'

/** Format name and version in the first line of a recording. */
export const recordingFormat = { name: 'varve-recording', version: 2 } as const

// Only values that can be sent in HTTP heads are valid.
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
  /** Text body. */
  body: z.string('expected a text').optional(),
  /** Body that is not readable text. */
  base64: z.base64('expected base64').optional(),
  /** Reason for a missing body. */
  leftOut: z.string('expected the reason in words').optional()
}

const request = z.strictObject({ method, target, headers, ...bytes }, 'expected a request')
const response = z.strictObject({
  status: z.int('expected a status').min(200, 'expected a status from 200 to 999').max(
    999,
    'expected a status from 200 to 999'
  ),
  headers,
  ...bytes,
  /** Side that ended the connection within the body. */
  broken: z.enum(['node', 'client'], 'expected one of node, client').optional()
}, 'expected a response')

const head = z.strictObject({
  form: z.literal(recordingFormat.name, `expected "${recordingFormat.name}"`),
  version: z.literal(
    recordingFormat.version,
    `expected ${recordingFormat.version}: another release of varve made this file, record it again`
  ),
  /** Start time of the recording. */
  made: z.iso.datetime('expected a time such as 2026-11-22T10:00:00.000Z'),
  /** Release of the recorder. */
  by: z.string('expected a text')
}, 'expected the first line of a recording')

const pair = z.strictObject({
  /** Time of the request since the start of the recording, in milliseconds. */
  at: ms,
  /** Time until the response head, in milliseconds. */
  head: ms.optional(),
  /** Total time in milliseconds. */
  took: ms,
  request,
  response: response.optional(),
  /** No response head arrived: the connection failed, or nothing came before the client gave up. */
  none: z.enum(['lost', 'silent'], 'expected one of lost, silent').optional(),
  /** Error code of the system. */
  why: z.string('expected a text').optional()
}, 'expected a request with its response')
  .refine(({ response, none }) => (response === undefined) !== (none === undefined), 'expected either response or none')
  .refine(
    ({ request, response = {} }) => hasAtMostOneBody(request) && hasAtMostOneBody(response),
    'expected one of body, base64 and leftOut'
  )

function hasAtMostOneBody ({ body, base64, leftOut }: RecordedBody): boolean {
  return [body, base64, leftOut].filter(one => one !== undefined).length <= 1
}

/** First line of a recording. */
export type RecordingHeader = z.output<typeof head>

/** Request with its outcome, as one line of a recording. */
export type RecordedExchange = z.output<typeof pair>

/** Recorded response. */
export type RecordedResponse = z.output<typeof response>

/** Headers in order, with a pair for each occurrence of a repeated name. */
export type HeaderLines = ReadonlyArray<readonly [name: string, value: string]>

/** Parsed line, or the expectation that it did not meet. */
export type ParsedLine<T> = { readonly value: T } | { readonly mistake: string }

/** Parses the first line. */
export function parseRecordingHeader (text: string): ParsedLine<RecordingHeader> {
  return parseLine(head, text)
}

/** Parses any other line. */
export function parseRecordedExchange (text: string): ParsedLine<RecordedExchange> {
  return parseLine(pair, text)
}

function parseLine<T> (schema: z.ZodType<T>, text: string): ParsedLine<T> {
  const tree = parseJson(text)
  if (tree === undefined) return { mistake: 'expected a line of JSON' }
  const { data, error } = schema.safeParse(tree)
  return error === undefined ? { value: data as T } : { mistake: error.issues.slice(0, 1).map(describeIssue).join('') }
}

function describeIssue (issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') {
    return `${issue.path.map(key => `${String(key)}.`).join('')}${issue.keys.join(', ')}: unknown member`
  }
  return issue.path.length === 0 ? issue.message : `${issue.path.join('.')}: ${issue.message}`
}

function parseJson (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
