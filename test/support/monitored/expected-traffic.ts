import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { request as secureRequest } from 'node:https'
import { setImmediate as turn } from 'node:timers/promises'
import { type EndpointLabel } from '../../../src/metrics/metrics.js'
import { type OutcomeName } from '../../../src/proxy/outcomes.js'
import { ownOutcomeIn } from '../own-outcome.js'
import { type TestVarve } from '../varve.js'

/** Expected response of a request, known before it is sent. */
export interface ExpectedResponse {
  readonly endpoint: EndpointLabel
  readonly outcome: OutcomeName
  readonly status: number
  /** Read of pruned history: source of the response, and decade of the distance. */
  readonly pruned?: { readonly answer: 'cache' | 'local' | 'upstream', readonly below: number }
  /** Configured name of a client with a key. */
  readonly client?: string
  /** Minimum time of varve for the request, if known. */
  readonly leastMs?: number
}

/** A request that had the expected response. */
export interface SentRequest extends ExpectedResponse {
  readonly instance: string
  /** Time that the client waited, including the connection. */
  readonly seconds: number
}

/** Optional parts of a request. */
export interface RequestParts {
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly agent?: Agent
}

/** A response, with the parts that tests use. */
export interface TrafficResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** All client requests of a monitored span. An unexpected response fails at once. */
export class Traffic {
  readonly requests: SentRequest[] = []

  /** Sends a request. */
  async send (
    varve: Pick<TestVarve, 'url' | 'adminUrl'>,
    target: string,
    foreseen: ExpectedResponse,
    wording: RequestParts = {}
  ): Promise<TrafficResponse> {
    const begun = performance.now()
    const response = await exchange(varve.url, target, wording)
    // Yields two turns: the server counts a response in the next turn of the loop, after the client may have it.
    for (let passes = 0; passes < 2; passes++) await turn()
    const seconds = (performance.now() - begun) / 1000
    if (response.status !== foreseen.status) {
      throw new Error(`${target} was to be ${foreseen.status} and is ${response.status}: ${response.body}`)
    }
    const outcome = outcomeIn(String(response.headers['cache-status']))
    if (outcome !== undefined && outcome !== foreseen.outcome) {
      throw new Error(`${target} was to be ${foreseen.outcome} and is ${String(response.headers['cache-status'])}`)
    }
    this.requests.push({ ...foreseen, instance: new URL(varve.adminUrl).host, seconds })
    return response
  }

  /** Returns the number of requests that match. */
  count (is: (sent: SentRequest) => boolean): number {
    return this.requests.filter(is).length
  }
}

async function exchange (
  base: string,
  target: string,
  { headers, body, agent = new Agent() }: RequestParts
): Promise<TrafficResponse> {
  return await new Promise((resolve, reject) => {
    const { protocol, hostname, port } = new URL(base)
    const method = body === undefined ? 'GET' : 'POST'
    const options = { hostname, port, path: target, method, headers }
    const sent = (protocol === 'https:'
      ? secureRequest({ ...options, rejectUnauthorized: false, agent: false })
      : request({ ...options, agent })).on('response', response => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString()
          })
        })
      })
    sent.on('error', reject)
    sent.end(body)
  })
}

// Returns the outcome in Cache-Status; a pruned hit names neither memory nor Redis.
function outcomeIn (line: string): OutcomeName | undefined {
  if (line.includes('detail=memory')) return 'hit_memory'
  if (line.includes('detail=redis')) return 'hit_redis'
  if (line.includes('collapsed')) return 'collapsed'
  if (line.includes('fwd=uri-miss')) return 'miss'
  if (line.includes('fwd=bypass')) return 'forwarded'
  return ownOutcomeIn(line)
}
