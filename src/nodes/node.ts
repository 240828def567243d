import { readFileSync } from 'node:fs'
import { type Dispatcher, Pool } from 'undici'
import { type Headers, type Position, readPosition } from '../ledger/position.js'
import { type Answer } from '../reads/answer.js'
import { isDeadConnection, NodeFailure } from './node-failure.js'

/** How one full node is reached. */
export interface NodeOptions {
  readonly name: string
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxConcurrent: number
  readonly caFile: string | null
  readonly maxAnswerBytes: number
  readonly now: () => number
}

/** What is asked: rebuilt from the canonical read, so that nothing unkeyed reaches a node (law 1). */
export interface Question {
  readonly endpoint: string
  readonly method: 'GET' | 'POST'
  readonly target: string
  readonly accept: string
  readonly body?: string | undefined
}

/** Told of everything that was asked of a node and how it ended. */
export interface NodeTally {
  asked (node: string, endpoint: string, status: string, seconds: number): void
}

// With the limit of connections, how many reads may be under way or waiting for one.
const waitingPerConnection = 8

/** One full node: a pool of connections, its own headers, and what it last said of itself. */
export class LedgerNode {
  readonly name: string
  readonly #options: NodeOptions
  readonly #tally: NodeTally
  readonly #pool: Pool
  readonly #prefix: string
  #release: string | undefined
  #position: Position | undefined
  #up = false
  #underWay = 0
  #closed: Promise<void> | undefined

  constructor (options: NodeOptions, tally: NodeTally) {
    const { origin, pathname } = new URL(options.url)
    this.name = options.name
    this.#options = options
    this.#tally = tally
    this.#prefix = pathname.replace(/\/+$/, '')
    this.#pool = new Pool(origin, {
      connections: options.maxConcurrent,
      pipelining: 1,
      maxResponseSize: options.maxAnswerBytes,
      headersTimeout: options.timeoutMs,
      bodyTimeout: options.timeoutMs,
      connect: {
        timeout: options.timeoutMs,
        rejectUnauthorized: true,
        ...(options.caFile === null ? {} : { ca: readFileSync(options.caFile) })
      }
    })
  }

  /** Whether it gave the last thing asked of it an answer as a node does. */
  get up (): boolean {
    return this.#up
  }

  /** The last position it stamped on an answer. */
  get position (): Position | undefined {
    return this.#position
  }

  /** The release it runs, as `GET /v1` last said. */
  get release (): string | undefined {
    return this.#release
  }

  /** Takes in the release that an index answer named. */
  runs (release: string): void {
    this.#release = release
  }

  /** Asks once and gathers the whole answer; throws a NodeFailure when none came whole. */
  async ask (question: Question): Promise<Answer> {
    const { now, maxConcurrent } = this.#options
    const started = now()
    const tell = (status: string): void => {
      this.#tally.asked(this.name, question.endpoint, status, (now() - started) / 1000)
    }
    // What cannot be asked soon is refused at once, so that those who wait are never more than this (law 10).
    if (this.#underWay >= maxConcurrent * waitingPerConnection) {
      tell('busy')
      throw new NodeFailure(this.name, 'busy', undefined)
    }
    this.#underWay++
    try {
      const answer = await this.#askOnce(question)
      this.#up = answer.stamped !== undefined || answer.status < 500
      this.#position = answer.stamped?.position ?? this.#position
      tell(String(answer.status))
      return answer
    } catch (error) {
      const failure = NodeFailure.of(this.name, error)
      this.#up = false
      tell(failure.reason)
      throw failure
    } finally {
      this.#underWay--
    }
  }

  /** Ends every connection; whoever waits for an answer gets a failure. */
  async close (): Promise<void> {
    this.#closed ??= this.#pool.destroy()
    await this.#closed
  }

  async #askOnce (question: Question): Promise<Answer> {
    // Taken before the question leaves: an upgrade in between makes an entry look old, never look new.
    const release = this.#release
    const response = await this.#send(question)
    return {
      status: response.statusCode,
      headers: response.headers,
      body: Buffer.from(await response.body.arrayBuffer()),
      isFramed: isFramed(response.headers),
      stamped: readPosition(response.headers),
      release
    }
  }

  // A kept connection can die under a request that the node never saw; reads are idempotent, so one fresh try is right
  // (RFC 9110, section 9.2.2). A connection that never carried an answer gets no such second chance.
  async #send (question: Question): Promise<Dispatcher.ResponseData> {
    const request: Dispatcher.RequestOptions = {
      method: question.method,
      path: this.#prefix + question.target,
      headers: this.#headersFor(question),
      body: question.body ?? null,
      idempotent: true,
      signal: AbortSignal.timeout(this.#options.timeoutMs)
    }
    try {
      return await this.#pool.request(request)
    } catch (error) {
      if (!isDeadConnection(error)) throw error
      return await this.#pool.request(request)
    }
  }

  // Lower case, since a configured header must replace ours whatever its spelling.
  #headersFor (question: Question): Record<string, string> {
    const own = Object.entries(this.#options.headers).map(([name, value]) => [name.toLowerCase(), value])
    return {
      'user-agent': 'varve',
      ...Object.fromEntries(own),
      accept: question.accept,
      'accept-encoding': 'identity',
      ...(question.body === undefined ? {} : { 'content-type': 'application/json' })
    }
  }
}

function isFramed (headers: Headers): boolean {
  return headers['content-length'] !== undefined || /chunked\s*$/i.test(String(headers['transfer-encoding']))
}
