import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, rootCertificates } from 'node:tls'
import { type Dispatcher, errors, Pool } from 'undici'
import { type Turn } from './budget.js'
import { Lines, type LinesOptions } from './lines.js'
import { isDeadConnection } from './node-failure.js'
import { type Question } from './question.js'
import { Reception } from './reception.js'

// After its own time.
const graceMs = 1000

/** How one full node is reached. */
export interface Reach extends Omit<LinesOptions, 'hostname'> {
  /** May carry a path prefix before /v1. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly maxConcurrent: number
  readonly caFile: string | null
  /** CAs that are believed in any case; left out for those that Node brings. */
  readonly authorities?: readonly string[]
  /** Told when a connection is lost, as all are when a node is started anew; not when we have ended it ourselves. */
  readonly onLost?: () => void
}

/** The connections to one node, and the node's own headers. */
export class Connections {
  readonly #pool: Pool
  readonly #lines: Lines
  readonly #prefix: string
  readonly #headers: Readonly<Record<string, string>>
  #closed: Promise<void> | undefined

  constructor (reach: Reach) {
    const { url, headers, timeoutMs, maxConcurrent, caFile, authorities = rootCertificates, onLost } = reach
    const { origin, hostname, pathname } = new URL(url)
    this.#prefix = pathname.replace(/\/+$/, '')
    // Lower case, since a configured header must replace ours whatever its spelling.
    this.#headers = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]))
    this.#lines = new Lines({ ...reach, hostname })
    // A `ca` by itself would be believed instead of those that Node brings, and all of them are read once, not for each
    // connection.
    const vouched = caFile === null
      ? {}
      : { secureContext: createSecureContext({ ca: [...authorities, certificatesIn(caFile)] }) }
    this.#pool = new Pool(origin, {
      factory: this.#lines.make,
      connections: maxConcurrent,
      pipelining: 1,
      // Its head is waited for by who asks, and by this only should that ever fail.
      headersTimeout: timeoutMs + graceMs,
      bodyTimeout: timeoutMs,
      connect: {
        timeout: timeoutMs,
        rejectUnauthorized: true,
        ...(this.#lines.lookup && { lookup: this.#lines.lookup }),
        ...vouched
      }
    })
    this.#pool.on('disconnect', (_origin, _targets, error) => {
      if (!isOurEnd(error)) onLost?.()
    })
  }

  /**
   * Sends a question and takes in what comes of it. Its turn is over when it is out of the way, be it answered, failed
   * or taken back.
   */
  ask (
    { method, target, headers, about, body, isIdempotent }: Question,
    maxBytes: number,
    turn: Turn | undefined,
    onOver: () => void
  ): Reception {
    const request: Dispatcher.DispatchOptions = {
      method: method as Dispatcher.HttpMethod,
      path: this.#prefix + target,
      headers: { 'user-agent': 'varve', ...about, ...this.#headers, 'accept-encoding': 'identity', ...headers },
      body: body ?? null,
      idempotent: isIdempotent
    }
    let triesLeft = isIdempotent ? 1 : 0
    const reception = new Reception({
      maxBytes: method === 'HEAD' ? undefined : maxBytes,
      // A kept connection can die under a request that the node never saw; reads are idempotent, so one fresh try is
      // right (RFC 9110, section 9.2.2). A connection that never carried an answer gets no such second chance.
      asksAgain: error => {
        if (triesLeft-- <= 0 || !isDeadConnection(error)) return false
        this.#pool.dispatch(request, reception)
        return true
      },
      onSent: () => {
        turn?.sent()
      },
      onOver: () => {
        onOver()
        turn?.over()
      }
    })
    this.#pool.dispatch(request, reception)
    return reception
  }

  /** Ends when what is under way has been answered. */
  async retire (): Promise<void> {
    this.#lines.close()
    await this.#pool.close()
  }

  /** Ends every connection; whoever waits for an answer gets a failure. */
  async close (): Promise<void> {
    this.#lines.close()
    this.#closed ??= this.#pool.destroy()
    await this.#closed
  }
}

// What cannot be used is known before anybody is asked.
function certificatesIn (file: string): string {
  try {
    const text = readFileSync(file, 'utf8')
    // Throws where the first of them is none.
    return new X509Certificate(text) && text
  } catch (error) {
    throw new Error(`the caFile ${file} holds no certificate: ${(error as Error).message}`)
  }
}

// What undici says of a connection that was ended since its question was taken back or the rest of an answer let go of:
// HTTP/1.1 has no other way to do so.
function isOurEnd (error: Error): boolean {
  return error instanceof errors.InformationalError && error.message === 'aborted'
}
