import { type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { Names, type Resolve } from './names.js'

/** How it is found out where the name of a node leads. */
export interface LinesOptions {
  readonly hostname: string
  readonly timeoutMs: number
  readonly now: () => number
  /** Left out for that of the system. */
  readonly resolve?: Resolve | undefined
  /** How often the name is looked at; left out for the usual. */
  readonly lookEveryMs?: number | undefined
}

const usualMs = 15_000
// An answer that stays the same for two looks is where the name leads; of a name that has another answer each time an
// address may come again much later.
const steadyLooks = 1.8
const forgottenLooks = 40

/** One connection after another of a pool to the same node. */
class Line extends Client {
  namedAtMs = 0
  #socket: Socket | undefined
  #isLeaving = false

  /** Where it leads; undefined while it is not connected. */
  get address (): string | undefined {
    // Which interface a link-local address is reached by is no part of it.
    return this.#socket?.remoteAddress?.split('%', 1).join('')
  }

  opened (socket: Socket, nowMs: number): void {
    this.#socket = socket
    this.#isLeaving = false
    this.namedAtMs = nowMs
  }

  /** Its name leads there. */
  stay (nowMs: number): void {
    this.namedAtMs = nowMs
    this.#isLeaving = false
  }

  /**
   * Its name leads elsewhere: it ends when it is not asked anything, and the next question goes where the name leads.
   */
  leave (): void {
    this.#isLeaving = true
    this.#endIfIdle()
  }

  override dispatch (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#isLeaving) this.#endIfIdle()
    return super.dispatch(options, handler)
  }

  #endIfIdle (): void {
    if (this.stats.size === 0) this.#socket?.destroy()
  }
}

/**
 * The connections of a pool follow the name of the node: those to an address that the name does not lead to any more
 * are ended, though it may still answer. Names of which each answer is a part of many addresses do not have theirs
 * ended for that.
 */
export class Lines {
  /** What a socket asks for the address; undefined where there is no name. */
  readonly lookup: LookupFunction | undefined
  readonly #options: LinesOptions
  readonly #open = new Set<Line>()
  #answer = ''
  #steadySinceMs = 0
  readonly #timer: NodeJS.Timeout | undefined

  constructor (options: LinesOptions) {
    const { hostname, lookEveryMs = usualMs } = options
    this.#options = options
    if (isIP(hostname.replace(/^\[|\]$/g, '')) !== 0) return
    const names = new Names({
      ...options,
      onAnswer: (_hostname, addresses) => {
        this.#answered(addresses)
      }
    })
    this.lookup = names.lookup
    // A process that has not asked the node yet is to know where it was, too.
    const look = (): void => {
      names.look(hostname).catch(() => {})
    }
    this.#timer = setInterval(look, lookEveryMs).unref()
    look()
  }

  /** Makes one more for a pool. */
  readonly make = (origin: URL, options: object): Dispatcher => {
    const connect = (options as { connect: buildConnector.connector }).connect
    const line: Line = new Line(origin, {
      ...options,
      connect: (how, callback) => {
        connect(how, (...came) => {
          const [error, socket] = came
          if (error === null) this.#opened(line, socket)
          callback(...came)
        })
      }
    })
    return line
  }

  /** Looks no more. */
  close (): void {
    clearInterval(this.#timer)
  }

  #opened (line: Line, socket: Socket): void {
    line.opened(socket, this.#options.now())
    this.#open.add(line)
    socket.once('close', () => {
      this.#open.delete(line)
    })
  }

  #answered (addresses: readonly LookupAddress[]): void {
    const { now, lookEveryMs = usualMs } = this.#options
    const nowMs = now()
    const named = new Set(addresses.map(({ address }) => address))
    const answer = [...named].sort().join()
    if (answer !== this.#answer) {
      this.#answer = answer
      this.#steadySinceMs = nowMs
    }
    const isSteady = nowMs - this.#steadySinceMs >= steadyLooks * lookEveryMs
    for (const line of this.#open) {
      if (line.address === undefined || named.has(line.address)) line.stay(nowMs)
      else if (isSteady || nowMs - line.namedAtMs >= forgottenLooks * lookEveryMs) line.leave()
    }
  }
}
