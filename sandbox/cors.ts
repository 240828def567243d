import { type IncomingHttpHeaders } from 'node:http'
import { errorBody, type Reply, reply } from './reply.js'

/** Whether a browser asks in a request whether a page may send another. */
export function isPreflight (method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

/** The answer to a browser that asks first: any origin may read and post, with whatever headers. */
export function preflightReply (headers: IncomingHttpHeaders): Reply {
  const method = headers['access-control-request-method']
  if (method !== 'GET' && method !== 'POST') {
    return reply(403, 'framework', errorBody('request-method not allowed', 'web_framework_error'))
  }
  return {
    status: 200,
    headers: [
      ...originLines(String(headers.origin)),
      ['access-control-allow-methods', 'GET,POST'],
      ['access-control-allow-headers', headers['access-control-request-headers'] ?? '*'],
      ['access-control-max-age', '86400']
    ],
    body: Buffer.alloc(0)
  }
}

/** An answer as a page of an origin may read it: its body alone, since the nodes name no header that a page may see. */
export function readableBy (origin: string | undefined, answered: Reply): Reply {
  // What the HTTP layer refuses never gets as far as the framework, which says this.
  if (origin === undefined || answered.headers.length === 0) return answered
  return { ...answered, headers: [...answered.headers, ...originLines(origin)] }
}

function originLines (origin: string): Array<[string, string]> {
  return [['access-control-allow-origin', origin], ['access-control-allow-credentials', 'true'], ['vary', 'Origin']]
}
