import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { request as secureRequest } from 'node:https'
import { setImmediate as turn } from 'node:timers/promises'
import { type EndpointLabel } from '../../../src/metrics/metrics.js'
import { type OutcomeName } from '../../../src/proxy/outcomes.js'
import { ownOutcomeIn } from '../own-outcome.js'
import { type TestVarve } from '../varve.js'

/** How a request will be answered, as whoever sends it knows beforehand. */
export interface ExpectedResponse {
  readonly endpoint: EndpointLabel
  readonly outcome: OutcomeName
  readonly status: number
  /** Of reads of pruned history: who answers, and in which decade the distance lies. */
  readonly pruned?: { readonly answer: 'cache' | 'local' | 'upstream', readonly below: number }
  /** The configured name of a client with a key. */
  readonly client?: string
  /** What it takes varve at least, where that is more than nothing. */
  readonly leastMs?: number
}

/** A request that was answered as foreseen. */
export interface SentRequest extends ExpectedResponse {
  readonly instance: string
  /** What the client waited, connection included. */
  readonly seconds: number
}

/** What a request may say. */
export interface RequestParts {
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly agent?: Agent
}

/** An answer as far as it matters here. */
export interface TrafficResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** All that clients send while it is watched. An answer that is not the foreseen one fails at once. */
export class Traffic {
  readonly requests: SentRequest[] = []

  /** Sends one. */
  async send (
    varve: Pick<TestVarve, 'url' | 'adminUrl'>,
    target: string,
    foreseen: ExpectedResponse,
    wording: RequestParts = {}
  ): Promise<TrafficResponse> {
    const begun = performance.now()
    const heard = await exchange(varve.url, target, wording)
    // Whoever answers learns that all of it has left in the event loop's next turn, when the client may have it
    // already.
    for (let turns = 0; turns < 2; turns++) await turn()
    const seconds = (performance.now() - begun) / 1000
    if (heard.status !== foreseen.status) {
      throw new Error(`${target} was to be ${foreseen.status} and is ${heard.status}: ${heard.body}`)
    }
    const said = outcomeIn(String(heard.headers['cache-status']))
    if (said !== undefined && said !== foreseen.outcome) {
      throw new Error(`${target} was to be ${foreseen.outcome} and is ${String(heard.headers['cache-status'])}`)
    }
    this.requests.push({ ...foreseen, instance: new URL(varve.adminUrl).host, seconds })
    return heard
  }

  /** How many there were of a kind. */
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

// What Cache-Status tells of the outcome; a pruned hit says neither memory nor Redis.
function outcomeIn (line: string): OutcomeName | undefined {
  if (line.includes('detail=memory')) return 'hit_memory'
  if (line.includes('detail=redis')) return 'hit_redis'
  if (line.includes('collapsed')) return 'collapsed'
  if (line.includes('fwd=uri-miss')) return 'miss'
  if (line.includes('fwd=bypass')) return 'forwarded'
  return ownOutcomeIn(line)
}
