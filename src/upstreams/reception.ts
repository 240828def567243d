import { Readable } from 'node:stream'
import { type Dispatcher } from 'undici'
import { type Headers } from '../api/position.js'
import { type Answer } from '../api/answer.js'

/** What came: the head, and the body or its beginning. */
export type Received = Pick<Answer, 'status' | 'headers' | 'body' | 'rest'>

// An error is gathered in any case: what it says decides whether another node is asked.
const maxErrorBytes = 65_536

/** How one answer is taken in. */
export interface ReceptionOptions {
  /** Undefined where no body comes, whatever its head says of one. */
  readonly maxBytes: number | undefined
  /** Told when the question goes out, which it may do once more. */
  readonly onSent: () => void
  /** Told of a failure before anything has come; whether the question has been asked again. */
  readonly asksAgain: (error: Error) => boolean
  /** Told when the question is out of the way, and nothing more can come. */
  readonly onOver: () => void
}

/**
 * Takes in one answer: gathers its body up to a number of bytes; what is longer is handed over as its beginning and the
 * rest to come. It hears the connection itself, since a stream and a signal for every answer took longer than all that
 * a miss does besides.
 */
export class Reception implements Dispatcher.DispatchHandler {
  /** Fails as soon as it is given up, also while the question waits for a connection. */
  readonly received: Promise<Received>
  readonly #options: ReceptionOptions
  readonly #gathered: Buffer[] = []
  #settle: { resolve: (received: Received) => void, reject: (error: unknown) => void } | undefined
  #controller: Dispatcher.DispatchController | undefined
  #head: Pick<Received, 'status' | 'headers'> | undefined
  #size = 0
  #maxBytes = Infinity
  #rest: Readable | undefined
  #givenUp: Error | undefined
  #isOver = false

  constructor (options: ReceptionOptions) {
    this.#options = options
    this.received = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
  }

  /** Nobody waits for it any longer; a question that waits for a connection is taken back when it gets one. */
  giveUp (reason: Error): void {
    if (this.#isOver || this.#givenUp !== undefined) return
    this.#givenUp = reason
    this.#settle?.reject(reason)
    if (this.#rest === undefined) this.#controller?.abort(reason)
    else this.#rest.destroy(reason)
  }

  onRequestStart (controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#givenUp === undefined) this.#options.onSent()
    else controller.abort(this.#givenUp)
  }

  onResponseStart (controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    // A word on the way, not yet the answer.
    if (status < 200) return
    this.#head = { status, headers }
    const { maxBytes } = this.#options
    this.#maxBytes = maxBytes === undefined ? Infinity : Math.max(maxBytes, status >= 400 ? maxErrorBytes : 0)
    // One that says how large it is need not be held at all.
    if (Number(headers['content-length']) > this.#maxBytes) this.#handOver(controller)
  }

  onResponseData (controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#rest !== undefined) {
      if (!this.#rest.push(chunk)) controller.pause()
      return
    }
    this.#gathered.push(chunk)
    this.#size += chunk.length
    if (this.#size > this.#maxBytes) this.#handOver(controller)
  }

  onResponseEnd (): void {
    this.#over()
    if (this.#rest === undefined) this.#resolve(undefined)
    else this.#rest.push(null)
  }

  onResponseError (_controller: Dispatcher.DispatchController, error: Error): void {
    if (this.#head === undefined && this.#givenUp === undefined && this.#options.asksAgain(error)) return
    this.#over()
    this.#settle?.reject(error)
    this.#rest?.destroy(error)
  }

  #over (): void {
    this.#isOver = true
    this.#options.onOver()
  }

  #resolve (rest: Readable | undefined): void {
    const [first, second] = this.#gathered
    const body = first !== undefined && second === undefined ? first : Buffer.concat(this.#gathered)
    if (this.#head !== undefined) {
      this.#settle?.resolve({ status: this.#head.status, headers: this.#head.headers, body, rest })
    }
  }

  #handOver (controller: Dispatcher.DispatchController): void {
    // At the pace of its reader, and nothing before that one reads.
    controller.pause()
    const rest = new Readable({
      // The same on every line of Node: a reader who waits costs no more than this.
      highWaterMark: 16_384,
      read: () => {
        controller.resume()
      },
      destroy: (error, done) => {
        if (!this.#isOver) controller.abort(error ?? new Error('nobody reads the rest'))
        done(error)
      }
    })
    // Who lets go of what has come whole, but was never read, would end the process: nobody else listens for that
    // error.
    rest.on('error', () => {})
    this.#rest = rest
    this.#resolve(rest)
  }
}
