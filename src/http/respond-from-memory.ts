import { type EndpointName } from '../api/endpoints.js'
import { type OutcomeName, outcomeNameOf } from '../proxy/outcomes.js'
import { type ParsedRequest } from '../proxy/parsed-request.js'
import { type ProxyContext } from '../proxy/proxy-context.js'
import { serveFromMemory } from '../proxy/serve-read.js'
import { type ClientResponse, type ResponsePreferences, type ResponseBuilder } from '../proxy/response-builder.js'

/** A response that can be sent without waiting. */
export interface MemoryResponse {
  readonly endpoint: EndpointName
  readonly outcome: OutcomeName
  readonly response: ClientResponse
}

/**
 * Returns the response to a parsed request if memory may serve it at this moment. Each hit before the router is decided
 * here, at each look-up again.
 */
export function respondFromMemory (
  { proxy, responseBuilder }: { readonly proxy: ProxyContext, readonly responseBuilder: ResponseBuilder },
  parsed: ParsedRequest,
  preferences: ResponsePreferences
): MemoryResponse | undefined {
  parsed.recordRequestedVersion(proxy)
  const { endpoint: { name: endpoint } } = parsed.read
  const memo = parsed.getMemo(proxy, preferences)
  if (memo !== undefined) return { endpoint, outcome: parsed.memoOutcome, response: memo }
  const hit = serveFromMemory(proxy, parsed)
  if (hit === undefined) return undefined
  const response = responseBuilder.respond(parsed.read, hit, preferences)
  parsed.memoise(proxy, hit, preferences, response)
  return { endpoint, outcome: outcomeNameOf(hit), response }
}
