import { type Test } from 'tap'
import { withTimeout } from '../../../src/with-timeout.js'
import { reset } from '../reset.js'
import { until } from '../until.js'
import { type TestVarve, varveAt } from '../varve.js'
import { freshResponse } from './fresh-response.js'
import { type HostileCase, piecesOf } from './hostile-case.js'
import { isOwnRequest, type RawUpstream, startRawUpstream } from './raw-upstream.js'
import { invariantViolations } from './response-invariants.js'
import { WireClient, type WireResponse } from './wire-client.js'

// Target cached at the start and read at the end of every connection.
const nextTarget = '/v1/accounts/0x5e47/modules?ledger_version=1'
// Time limits of a case: without waiting, and with one of varve's timeouts.
const limitMs = 6000
const slowLimitMs = 12_000

/** A plain read of a canonical target. */
export function plainGet (target: string, more = ''): string {
  return `GET ${target} HTTP/1.1\r\nHost: node.example\r\n${more}\r\n`
}

/** Responses to the bytes of a case, and the upstream requests in between. */
export interface Exchange {
  /** Without the response to the honest request that follows. */
  readonly responses: readonly WireResponse[]
  /** True if varve closed the connection by itself. */
  readonly isClosedByPeer: boolean
  readonly upstreamRequests: readonly string[]
}

type Sent = Pick<HostileCase, 'encoding' | 'then' | 'check'>

/** varve in front of an upstream that never repeats a response, and a client with one connection at a time. */
export class HostileBench {
  readonly upstream: RawUpstream
  readonly varve: TestVarve
  /** Violations of the invariants of all connections. */
  readonly failures: string[] = []
  #nextBody = ''
  #reads = 0

  private constructor (upstream: RawUpstream, varve: TestVarve) {
    this.upstream = upstream
    this.varve = varve
  }

  static async start (t: Test, fastPath: boolean): Promise<HostileBench> {
    let fresh = 0
    const upstream = await startRawUpstream(t, request => freshResponse(request, ++fresh))
    const varve = await varveAt(t, upstream.url, { upstream: { timeoutMs: 2000 }, http: { fastPath } })
    const bench = new HostileBench(upstream, varve)
    bench.#nextBody = (await varve.get(nextTarget)).body
    return bench
  }

  /** Upstream requests of clients since a moment. */
  requestsSince (received: number): string[] {
    return this.upstream.received.slice(received).filter(request => !isOwnRequest(request))
  }

  /** Sends bytes exactly as given, then an honest request on the same connection, and reads until it closes. */
  async send (raw: string, { encoding, then, check }: Sent = { check: {} }): Promise<Exchange> {
    const from = this.upstream.received.length
    const client = new WireClient(this.varve.url)
    const pieces = piecesOf(raw, encoding)
    // A response to HEAD never has a body.
    const methods = [...Buffer.concat(pieces).toString('latin1').matchAll(/^([A-Z]+) \S+ HTTP\/1\.[01]\r?$/gm)]
    const responses: WireResponse[] = []
    const take = (): boolean => {
      while (client.text !== '') {
        const response = client.take(methods[responses.length]?.[1] ?? 'GET')
        if (response === undefined) break
        responses.push(response)
      }
      return responses.length > 0
    }
    const converse = async (): Promise<boolean> => {
      await client.write(pieces)
      if (then === 'end') client.socket.end()
      else if (then === 'reset') reset(client.socket)
      else {
        await client.closed(take)
        if (responses[0]?.headers.get('connection') !== 'close') {
          client.socket.write(plainGet(nextTarget, 'Connection: close\r\n'))
        }
      }
      await client.closed(() => {
        take()
        return false
      })
      return true
    }
    if (await withTimeout(check.slow === true ? slowLimitMs : limitMs, converse()) === undefined) {
      this.failures.push(`nothing more came after: ${JSON.stringify(client.text.slice(0, 500))}`)
      client.close()
    }
    this.failures.push(...responses.flatMap(invariantViolations))
    const last = responses.at(-1)
    const isNext = then === undefined && responses.length > 1 && last?.status === 200 &&
      last.head.includes('\r\nConnection: close\r\n')
    if (isNext) {
      responses.pop()
      if (last.body !== this.#nextBody) this.failures.push(`the next request got another's response: ${last.body}`)
    }
    return { responses, isClosedByPeer: !isNext, upstreamRequests: this.requestsSince(from) }
  }

  /** Sends a request that must have a single response. */
  async sendPlain (raw: string): Promise<Exchange & { readonly response: WireResponse }> {
    const exchange = await this.send(raw)
    const [response] = exchange.responses
    if (response === undefined || exchange.responses.length > 1) {
      throw new Error(`${exchange.responses.length} responses to ${raw.slice(0, 200)}`)
    }
    return { ...exchange, response }
  }

  /** Checks that the process lives: a new read succeeds and is cached. */
  async checkAlive (t: Test): Promise<void> {
    const read = plainGet(`/v1/accounts/0xa11fe${(++this.#reads).toString(16)}/modules?ledger_version=7`)
    const { responses: [first, second] } = await this.send(read + read)
    t.match(first, { status: 200, body: /modules\?ledger_version=7"/ }, 'a plain read afterwards has its own response')
    t.equal(second?.body, first?.body, 'and is cached')
  }

  /** Checks that nothing is left: no error in the log, no request in progress. */
  async checkEnd (t: Test): Promise<void> {
    t.same(this.varve.log.filter(({ level }) => Number(level) >= 50), [], 'the log has no error')
    t.same(this.upstream.unreadable, [], 'every upstream request had one length')
    for (const series of ['varve_upstream_in_flight', 'varve_upstream_waiting']) {
      await until(async () => await this.varve.metric(`${series}{upstream="node"}`) === 0, `${series} is 0`)
    }
  }
}
