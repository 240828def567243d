import { type SpecFormats } from './openapi/openapi-types.js'
import { frameworkProblem } from './problem.js'
import { type RequestContext } from './request-context.js'
import { type SandboxResponse } from './response.js'

/** Serves the OpenAPI document as HTML, JSON and YAML; ignores `Accept` and sends no position. */
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
  // Tests call `respond` without a server and therefore without a document.
  if (spec === undefined) throw frameworkProblem('not found', 404)
  return { status: 200, headers, body: Buffer.from(spec[format]()) }
}
