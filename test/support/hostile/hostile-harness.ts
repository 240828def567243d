import { type Test } from 'tap'
import { until } from '../until.js'
import { type TestVarve, varveAt } from '../varve.js'
import { type HostileResponse } from './split-responses.js'
import { type HostileCase, piecesOf } from './hostile-case.js'
import { type Conversation, converse } from './converse.js'
import { invariantViolations } from './response-invariants.js'
import { type CapturingUpstream, startCapturingUpstream } from './capturing-upstream.js'

// Target cached at the start and read at the end of every connection.
const nextTarget = '/v1/accounts/0x5e47/modules?ledger_version=1'
// Time limits of a case: without waiting, and with one of varve's timeouts.
const limitMs = 6000
const slowLimitMs = 12_000

/** A plain read of a canonical target. */
export function plainGet (target: string, more = ''): string {
  return `GET ${target} HTTP/1.1\r\nHost: node.example\r\n${more}\r\n`
}

/** Sent and received bytes, and the upstream requests in between. */
export interface HostileExchange extends Conversation {
  readonly upstreamRequests: readonly string[]
}

/** varve in front of a recording upstream, and a client with one conversation at a time. */
export class HostileHarness {
  readonly upstream: CapturingUpstream
  readonly varve: TestVarve
  /** Violations of the invariants of all conversations. */
  readonly failures: string[] = []
  #nextBody = ''
  #reads = 0

  private constructor (upstream: CapturingUpstream, varve: TestVarve) {
    this.upstream = upstream
    this.varve = varve
  }

  static async start (t: Test, fastPath: boolean): Promise<HostileHarness> {
    const upstream = await startCapturingUpstream(t)
    // Turns audits off, which would detect an upstream that never repeats a response.
    const varve = await varveAt(t, upstream.url, {
      upstream: { timeoutMs: 2000 },
      audit: { share: 0 },
      http: { fastPath }
    })
    const bench = new HostileHarness(upstream, varve)
    bench.#nextBody = (await varve.get(nextTarget)).body
    return bench
  }

  /** Sends a request exactly as given; returns it with the upstream requests meanwhile. */
  async send (
    raw: string,
    { encoding, then, check: { slow } }: Pick<HostileCase, 'encoding' | 'then' | 'check'> = { check: {} }
  ): Promise<HostileExchange> {
    const from = this.upstream.received.length
    const conversation = await converse(this.varve.url, piecesOf(raw, encoding), {
      then,
      next: plainGet(nextTarget, 'Connection: close\r\n'),
      limitMs: slow === true ? slowLimitMs : limitMs
    })
    this.#check(conversation)
    return { ...conversation, upstreamRequests: this.upstream.received.slice(from) }
  }

  /** Sends a request that must have a single response. */
  async sendPlain (raw: string): Promise<HostileExchange & { readonly response: HostileResponse }> {
    const exchange = await this.send(raw)
    const [response] = exchange.responses
    if (response === undefined || exchange.responses.length > 1) {
      throw new Error(`${exchange.responses.length} responses to ${raw.slice(0, 200)}`)
    }
    return { ...exchange, response }
  }

  /** Checks every response and that both sides are in step: the next request gets its own response only. */
  #check ({ responses, next, rest }: Conversation): void {
    this.failures.push(...responses.flatMap(invariantViolations))
    if (rest !== '') this.failures.push(`not a response: ${rest.slice(0, 200)}`)
    if (next !== undefined && next.body !== this.#nextBody) {
      this.failures.push(`the next request on the connection got another's response: ${next.body.slice(0, 200)}`)
    }
  }

  /** Checks that the process lives: a new read succeeds and is cached. */
  async checkAlive (t: Test): Promise<void> {
    const read = plainGet(`/v1/accounts/0xa11fe${(++this.#reads).toString(16)}/modules?ledger_version=7`)
    const { responses: [first, second] } = await this.send(read + read)
    t.match(
      first,
      { status: 200, body: /modules\?ledger_version=7"/ },
      'a plain read right afterwards has its own response'
    )
    t.equal(second?.body, first?.body, 'and is cached')
  }

  /** Checks that nothing is left: no error in the log, no request in progress. */
  async checkEnd (t: Test): Promise<void> {
    t.same(this.varve.log.filter(({ level }) => Number(level) >= 50), [], 'the log has no error')
    t.same(this.upstream.unreadable, [], 'every upstream request had one length')
    await until(() => this.upstream.inFlight() === 0, 'no upstream request is left half sent')
    await until(async () => {
      const { upstreams } = JSON.parse(await (await fetch(`${this.varve.adminUrl}/status.json`)).text()) as {
        upstreams: Array<{ inFlight: number, waiting: number }>
      }
      return upstreams.every(({ inFlight, waiting }) => inFlight === 0 && waiting === 0)
    }, 'no upstream request is left in progress')
  }
}
