import { type IncomingHttpHeaders } from 'node:http'
import { printErrorBody, type SandboxResponse, makeResponse } from './response.js'

/** True for a CORS preflight request. */
export function isPreflight (method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'OPTIONS' && headers.origin !== undefined && headers['access-control-request-method'] !== undefined
}

/** Responds to a preflight: any origin and any headers, but only GET and POST. */
export function preflightResponse (headers: IncomingHttpHeaders): SandboxResponse {
  const method = headers['access-control-request-method']
  if (method !== 'GET' && method !== 'POST') {
    return makeResponse(403, 'framework', printErrorBody('request-method not allowed', 'web_framework_error'))
  }
  return {
    status: 200,
    headers: [
      ...corsHeaders(String(headers.origin)),
      ['access-control-allow-methods', 'GET,POST'],
      ['access-control-allow-headers', headers['access-control-request-headers'] ?? '*'],
      ['access-control-max-age', '86400']
    ],
    body: Buffer.alloc(0)
  }
}

/** Adds the CORS headers of nodes, which expose no response header; see docs/node-behaviour.md, "CORS". */
export function withCorsHeaders (origin: string | undefined, response: SandboxResponse): SandboxResponse {
  // Responses of the HTTP layer, which have no headers, never reach the framework that adds CORS headers.
  if (origin === undefined || response.headers.length === 0) return response
  return { ...response, headers: [...response.headers, ...corsHeaders(origin)] }
}

function corsHeaders (origin: string): Array<[string, string]> {
  return [['access-control-allow-origin', origin], ['access-control-allow-credentials', 'true'], ['vary', 'Origin']]
}
