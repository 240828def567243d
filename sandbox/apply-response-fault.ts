import { type Fault } from './fault.js'
import { Problem, type ProblemSource, statusOfCode } from './problem.js'
import { printErrorBody, problemResponse, type SandboxResponse, makeResponse, type Stamp } from './make-response.js'

const rateLimitText = 'Per anonymous IP rate limit exceeded. Limit: 50000 compute units per 300 seconds window.'
const htmlPage =
  '<!doctype html><html><head><title>Provider</title></head><body>Please complete the check.</body></html>\n'

/** Replaces a correct response with the response that the fault demands. */
export function applyResponseFault (response: SandboxResponse, fault: Fault, stamp: Stamp): SandboxResponse {
  switch (fault.kind) {
    case 'error':
      return problemResponse(problemOf(fault), stamp)
    case 'rateLimited':
      return {
        status: 429,
        headers: [['content-type', 'text/plain; charset=utf-8'], ['retry-after', fault.retryAfter ?? '1']],
        body: Buffer.from(rateLimitText)
      }
    case 'html':
      return { status: 200, headers: [['content-type', 'text/html; charset=utf-8']], body: Buffer.from(htmlPage) }
    case 'panic200':
      return makeResponse(200, 'framework', printErrorBody('internal error', 'internal_error'))
    case 'body':
      return { ...response, body: Buffer.from(fault.body) }
    case 'headers':
      return { ...response, headers: changeHeaders(response.headers, fault.set ?? {}, fault.remove ?? []) }
    default:
      return response
  }
}

type ErrorFault = Extract<Fault, { kind: 'error' }>

function problemOf (fault: ErrorFault): Problem {
  return new Problem(sourceOf(fault), fault.code, fault.message ?? `${fault.code} on demand`, statusOf(fault))
}

function statusOf ({ status, code }: ErrorFault): number {
  return status ?? statusOfCode[code]
}

// Nodes send no position with a 503 or with an error raised before the ledger is read.
function sourceOf (fault: ErrorFault): ProblemSource {
  if (fault.code === 'web_framework_error') return 'framework'
  const stamped = fault.stamped ?? (fault.code !== 'api_disabled' && statusOf(fault) !== 503)
  return stamped ? 'ledger' : 'verification'
}

function changeHeaders (
  headers: SandboxResponse['headers'],
  set: Readonly<Record<string, string>>,
  remove: readonly string[]
): SandboxResponse['headers'] {
  const removed = new Set([...Object.keys(set), ...remove].map(name => name.toLowerCase()))
  return [...headers.filter(([name]) => !removed.has(name.toLowerCase())), ...Object.entries(set)]
}
