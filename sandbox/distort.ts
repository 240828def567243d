import { type Fault } from './fault.js'
import { Problem, type Source, statusOfCode } from './problem.js'
import { errorBody, problemReply, type Reply, reply, type Stamp } from './reply.js'

const rateText = 'Per anonymous IP rate limit exceeded. Limit: 50000 compute units per 300 seconds window.'
const page = '<!doctype html><html><head><title>Provider</title></head><body>Please complete the check.</body></html>\n'

/** What a fault makes of the true answer. */
export function distorted (truth: Reply, fault: Fault, stamp: Stamp): Reply {
  switch (fault.kind) {
    case 'error':
      return problemReply(problemOf(fault), stamp)
    case 'rateLimited':
      return {
        status: 429,
        headers: [['content-type', 'text/plain; charset=utf-8'], ['retry-after', fault.retryAfter ?? '1']],
        body: Buffer.from(rateText)
      }
    case 'html':
      return { status: 200, headers: [['content-type', 'text/html; charset=utf-8']], body: Buffer.from(page) }
    case 'panic200':
      return reply(200, 'framework', errorBody('internal error', 'internal_error'))
    case 'body':
      return { ...truth, body: Buffer.from(fault.body) }
    case 'headers':
      return { ...truth, headers: changed(truth.headers, fault.set ?? {}, fault.remove ?? []) }
    default:
      return truth
  }
}

type ErrorFault = Extract<Fault, { kind: 'error' }>

function problemOf (fault: ErrorFault): Problem {
  return new Problem(sourceOf(fault), fault.code, fault.message ?? `${fault.code} on demand`, statusOf(fault))
}

function statusOf ({ status, code }: ErrorFault): number {
  return status ?? statusOfCode[code]
}

// Every 503 comes without the position, as do refusals that never reach the ledger.
function sourceOf (fault: ErrorFault): Source {
  if (fault.code === 'web_framework_error') return 'framework'
  const stamped = fault.stamped ?? (fault.code !== 'api_disabled' && statusOf(fault) !== 503)
  return stamped ? 'ledger' : 'verification'
}

function changed (
  headers: Reply['headers'],
  set: Readonly<Record<string, string>>,
  remove: readonly string[]
): Reply['headers'] {
  const gone = new Set([...Object.keys(set), ...remove].map(name => name.toLowerCase()))
  return [...headers.filter(([name]) => !gone.has(name.toLowerCase())), ...Object.entries(set)]
}
