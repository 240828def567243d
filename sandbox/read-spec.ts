import { type SpecFormats } from './openapi/openapi-object.js'
import { frameworkProblem } from './problem.js'
import { type RequestContext } from './request-context.js'
import { type SandboxResponse } from './response.js'

/** The node's OpenAPI document for people, as JSON, and as YAML: whatever form is asked for, and without a position. */
export const readSpec = {
  page: (context: RequestContext): SandboxResponse =>
    specResponse(context, 'page', ['content-type', 'text/html; charset=utf-8']),
  json: (context: RequestContext): SandboxResponse =>
    specResponse(context, 'json', ['content-type', 'application/json']),
  yaml: (context: RequestContext): SandboxResponse =>
    specResponse(context, 'yaml', ['content-type', 'application/x-yaml'], [
      'content-disposition',
      'inline; filename="spec.yaml"'
    ])
}

function specResponse (
  { spec }: RequestContext,
  format: keyof SpecFormats,
  ...headers: SandboxResponse['headers']
): SandboxResponse {
  // Whoever answers without a server has none.
  if (spec === undefined) throw frameworkProblem('not found', 404)
  return { status: 200, headers, body: Buffer.from(spec[format]()) }
}
