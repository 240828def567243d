import { NodeFailure } from '../upstreams/node-failure.js'
import { type LedgerNode } from '../upstreams/node.js'
import { questionOfItself } from '../upstreams/question.js'
import { type Polled } from './messages.js'

/** Told of every word of a node, whoever asked for it. */
export type OnPolled = (node: string, target: string, polled: Polled) => void

// What has just come is the word that another worker wants as well, also of those who wait for a version.
const freshMs = 50
// One that does not come is asked for again beside what hangs, so many times at once.
const hangingMs = 900
const mostUnderWay = 8

/** What is known of one question to one node. */
interface Line {
  readonly node: LedgerNode
  readonly target: string
  underWay: number
  askedAt: number
  answeredAskedAt: number
  last: { readonly polled: Polled, readonly atMs: number } | undefined
}

/** Asks each node where it stands once for all workers, and tells all of them what it says. */
export class SharedPolls {
  readonly #nodes: ReadonlyMap<string, LedgerNode>
  readonly #now: () => number
  readonly #onPolled: OnPolled
  // By node and question, of which each node is asked two.
  readonly #lines = new Map<string, Line>()
  #isOver = false

  constructor (nodes: readonly LedgerNode[], now: () => number, onPolled: OnPolled) {
    this.#nodes = new Map(nodes.map(node => [node.name, node]))
    this.#now = now
    this.#onPolled = onPolled
  }

  /** A worker wants to know: what is on its way is its answer too. */
  ask (name: string, target: string, timeoutMs: number): void {
    const node = this.#nodes.get(name)
    if (node === undefined || this.#isOver) return
    const line = this.#lineOf(node, target)
    const now = this.#now()
    if (line.last !== undefined && now - line.last.atMs < freshMs) return this.#onPolled(name, target, line.last.polled)
    const isAwaited = line.underWay > 0 && now - line.askedAt < hangingMs
    if (!isAwaited && line.underWay < mostUnderWay) this.#ask(line, timeoutMs).catch(() => {})
  }

  /** Asks nobody any more, and tells nothing. */
  async close (): Promise<void> {
    this.#isOver = true
    await Promise.all([...this.#nodes.values()].map(async node => {
      await node.close()
    }))
  }

  async #ask (line: Line, timeoutMs: number): Promise<void> {
    const askedAt = this.#now()
    line.askedAt = askedAt
    line.underWay++
    try {
      const { status, headers, body, rest } = await line.node.ask(questionOfItself(line.target), timeoutMs)
      rest?.destroy()
      line.answeredAskedAt = Math.max(line.answeredAskedAt, askedAt)
      this.#tell(line, { status, headers, body })
    } catch (error) {
      // One that another has overtaken is no word on the node any more.
      if (askedAt >= line.answeredAskedAt) {
        this.#tell(line, { failure: error instanceof NodeFailure ? error.reason : 'unreachable' })
      }
    } finally {
      line.underWay--
    }
  }

  #tell (line: Line, polled: Polled): void {
    if (this.#isOver) return
    line.last = { polled, atMs: this.#now() }
    this.#onPolled(line.node.name, line.target, polled)
  }

  #lineOf (node: LedgerNode, target: string): Line {
    const key = `${node.name} ${target}`
    const line = this.#lines.get(key) ??
      { node, target, underWay: 0, askedAt: -Infinity, answeredAskedAt: -Infinity, last: undefined }
    this.#lines.set(key, line)
    return line
  }
}
