import { readFileSync } from 'node:fs'
import { type Dispatcher, Pool } from 'undici'
import { isDeadConnection } from './node-failure.js'
import { type Question } from './question.js'

/** How one full node is reached. */
export interface Reach {
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly maxConcurrent: number
  readonly caFile: string | null
  /** Told when a connection is lost, as all are when a node is started anew. */
  readonly onLost?: () => void
}

/** The connections to one node, and the node's own headers. */
export class Connections {
  readonly #pool: Pool
  readonly #prefix: string
  readonly #headers: Readonly<Record<string, string>>
  #closed: Promise<void> | undefined

  constructor ({ url, headers, timeoutMs, maxConcurrent, caFile, onLost }: Reach) {
    const { origin, pathname } = new URL(url)
    this.#prefix = pathname.replace(/\/+$/, '')
    // Lower case, since a configured header must replace ours whatever its spelling.
    this.#headers = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    this.#pool = new Pool(origin, {
      connections: maxConcurrent,
      pipelining: 1,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      connect: {
        timeout: timeoutMs,
        rejectUnauthorized: true,
        ...(caFile === null ? {} : { ca: readFileSync(caFile) })
      }
    })
    this.#pool.on('disconnect', () => { onLost?.() })
  }

  /**
   * Sends a question; answers with the head of the response, whose body is still to come, or fails as soon as the signal says so.
   * `settled` is told when the question is out of the way: one that waits for a connection heeds no signal until it has one.
   */
  async send (question: Question, signal: AbortSignal, settled: () => void): Promise<Dispatcher.ResponseData> {
    const asked = this.#send(question, signal)
    let giveUp: () => void = () => {}
    const late = new Promise<never>((_resolve, reject) => { giveUp = () => { reject(signal.reason) } })
    signal.addEventListener('abort', giveUp, { once: true })
    if (signal.aborted) giveUp()
    try {
      return await Promise.race([asked, late])
    } catch (error) {
      asked.then(({ body }) => { body.destroy() }, () => {}).finally(settled)
      throw error
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  /** Ends every connection; whoever waits for an answer gets a failure. */
  async close (): Promise<void> {
    this.#closed ??= this.#pool.destroy()
    await this.#closed
  }

  async #send (question: Question, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const { method, target, body, isIdempotent } = question
    const request: Dispatcher.RequestOptions = {
      method: method as Dispatcher.HttpMethod,
      path: this.#prefix + target,
      headers: { 'user-agent': 'varve', ...question.about, ...this.#headers, 'accept-encoding': 'identity', ...question.headers },
      body: body ?? null,
      idempotent: isIdempotent,
      signal
    }
    try {
      return await this.#pool.request(request)
    } catch (error) {
      // A kept connection can die under a request that the node never saw; reads are idempotent, so one fresh try is right
      // (RFC 9110, section 9.2.2). A connection that never carried an answer gets no such second chance.
      if (!isIdempotent || !isDeadConnection(error)) throw error
      return await this.#pool.request(request)
    }
  }
}
