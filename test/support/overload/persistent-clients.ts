import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Test } from 'tap'
import { until } from '../until.js'

// Stays below the backlog of a listener, beyond which the system logs a warning.
const atOnce = 100

/** A client's kept-alive connection with one request at a time. */
export class PersistentClient {
  readonly socket: Socket
  #text = ''
  #settle: ((text: string) => void) | undefined

  constructor (socket: Socket) {
    this.socket = socket.on('error', () => {}).on('data', (chunk: Buffer) => {
      this.#receive(chunk)
    }).on('close', () => {
      this.#settle?.('closed')
    })
  }

  /** Returns the whole head of the response; `closed` if the connection ended before. */
  async get (target: string): Promise<string> {
    if (this.socket.destroyed) return 'closed'
    const response = new Promise<string>(resolve => {
      this.#settle = resolve
    })
    this.socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return await response
  }

  #receive (chunk: Buffer): void {
    this.#text += chunk.toString('latin1')
    const end = this.#text.indexOf('\r\n\r\n') + 4
    if (end < 4 || this.#text.length < end + Number(/^content-length: (\d+)/mi.exec(this.#text)?.[1])) return
    const head = this.#text.slice(0, end)
    this.#text = ''
    this.#settle?.(head)
  }
}

/** Opens connections. */
export async function openConnections (t: Test, url: string, count: number): Promise<Socket[]> {
  const { hostname, port } = new URL(url)
  const sockets: Socket[] = []
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  while (sockets.length < count) {
    const some = Array.from(
      { length: Math.min(atOnce, count - sockets.length) },
      () => connect(Number(port), hostname).on('error', () => {})
    )
    sockets.push(...some)
    await until(() => some.every(socket => !socket.connecting), 'connections open')
  }
  return sockets
}

/** Observations of clients that read hits all the time. */
export interface BusyReadResult {
  readonly latenciesMs: number[]
  /** Responses that were no hits. */
  readonly nonHits: string[]
}

/** Reads on kept-alive connections with a short pause after each response, until aborted. */
export async function readContinuously (
  clients: readonly PersistentClient[],
  targets: readonly string[],
  signal: AbortSignal
): Promise<BusyReadResult> {
  const seen: BusyReadResult = { latenciesMs: [], nonHits: [] }
  await Promise.all(clients.map(async (client, at) => {
    for (let nth = at; !signal.aborted; nth++) {
      const began = performance.now()
      const head = await client.get(targets[nth % targets.length] ?? '')
      seen.latenciesMs.push(performance.now() - began)
      if (!isCacheHit(head)) seen.nonHits.push(head)
      await pause(50)
    }
  }))
  return seen
}

/** True if a response is a hit. */
export function isCacheHit (head: string): boolean {
  return head.startsWith('HTTP/1.1 200 ') && /^cache-status: varve; hit/m.test(head)
}
