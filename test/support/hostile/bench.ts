import { type Test } from 'tap'
import { until } from '../until.js'
import { type TestVarve, varveAt } from '../varve.js'
import { type WireAnswer } from './answers.js'
import { type Case, piecesOf } from './case.js'
import { type Conversation, converse } from './converse.js'
import { wrongWith } from './every-answer.js'
import { type RecordingNode, recordingNode } from './recording-node.js'

// What is kept from the beginning, and asked for on every connection in the end.
const nextTarget = '/v1/accounts/0x5e47/modules?ledger_version=1'
// What a case may take that waits for nothing, and one that waits for varve's own patience to end.
const limitMs = 6000
const slowLimitMs = 12_000

/** A plain read of a well-spelled target. */
export function plainRead (target: string, more = ''): string {
  return `GET ${target} HTTP/1.1\r\nHost: node.example\r\n${more}\r\n`
}

/** What was said, what came back, and what the node was asked for it. */
export interface Said extends Conversation {
  readonly asked: readonly string[]
}

/** A varve in front of a recording node, and a client that leads one conversation at a time. */
export class Bench {
  readonly node: RecordingNode
  readonly varve: TestVarve
  /** What was found wrong of what is true of every conversation. */
  readonly wrong: string[] = []
  #kept = ''
  #reads = 0

  private constructor (node: RecordingNode, varve: TestVarve) {
    this.node = node
    this.varve = varve
  }

  static async start (t: Test): Promise<Bench> {
    const node = await recordingNode(t)
    // A node that never says the same again would be found out by the audit of hits.
    const varve = await varveAt(t, node.url, { upstream: { timeoutMs: 2000 }, audit: { share: 0 } })
    const bench = new Bench(node, varve)
    bench.#kept = (await varve.get(nextTarget)).body
    return bench
  }

  /** Says a request as it stands, with everything that the node is asked meanwhile. */
  async say (
    raw: string,
    { encoding, then, check: { slow } }: Pick<Case, 'encoding' | 'then' | 'check'> = { check: {} }
  ): Promise<Said> {
    const from = this.node.received.length
    const said = await converse(this.varve.url, piecesOf(raw, encoding), {
      then,
      next: plainRead(nextTarget, 'Connection: close\r\n'),
      limitMs: slow === true ? slowLimitMs : limitMs
    })
    this.#check(said)
    return { ...said, asked: this.node.received.slice(from) }
  }

  /** Says it, which must be answered just once. */
  async sayPlain (raw: string): Promise<Said & { readonly answer: WireAnswer }> {
    const said = await this.say(raw)
    const [answer] = said.answers
    if (answer === undefined || said.answers.length > 1) {
      throw new Error(`${said.answers.length} answers to ${raw.slice(0, 200)}`)
    }
    return { ...said, answer }
  }

  /**
   * Each answer is as any should be, and both sides are at the same place: who asks on gets the answer to that, and to
   * nothing else.
   */
  #check ({ answers, next, rest }: Conversation): void {
    this.wrong.push(...answers.flatMap(wrongWith))
    if (rest !== '') this.wrong.push(`what is no answer: ${rest.slice(0, 200)}`)
    if (next !== undefined && next.body !== this.#kept) {
      this.wrong.push(`the next request on the connection got another's answer: ${next.body.slice(0, 200)}`)
    }
  }

  /** The process lives: something new is read well, and is kept. */
  async checkAlive (t: Test): Promise<void> {
    const read = plainRead(`/v1/accounts/0xa11fe${(++this.#reads).toString(16)}/modules?ledger_version=7`)
    const { answers: [first, second] } = await this.say(read + read)
    t.match(
      first,
      { status: 200, body: /modules\?ledger_version=7"/ },
      'a plain read right afterwards is answered with what was asked for'
    )
    t.equal(second?.body, first?.body, 'and kept')
  }

  /** Nothing is left behind: no line in the log that tells of a fault, no question on its way. */
  async checkEnd (t: Test): Promise<void> {
    t.same(this.varve.log.filter(({ level }) => Number(level) >= 50), [], 'the log tells of no error')
    t.same(this.node.unreadable, [], 'every request to the node had one length')
    await until(() => this.node.underWay() === 0, 'no request to the node is left half said')
    await until(async () => {
      const { upstreams } = JSON.parse(await (await fetch(`${this.varve.adminUrl}/status.json`)).text()) as {
        upstreams: Array<{ underWay: number, waiting: number }>
      }
      return upstreams.every(({ underWay, waiting }) => underWay === 0 && waiting === 0)
    }, 'no question to the node is left under way')
  }
}
