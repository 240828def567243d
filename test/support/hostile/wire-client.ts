import { connect, type Socket } from 'node:net'
import { setImmediate as yieldTurn } from 'node:timers/promises'
import { type Test } from 'tap'

/** A response exactly as it came over the wire. */
export interface WireResponse {
  readonly status: number
  /** First line and header fields. */
  readonly head: string
  /** Values by name in lower case; those of equal names are joined. */
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
  /** False if the connection closed before the promised end. */
  readonly isWhole: boolean
}

/** A connection to varve that accounts for every byte. */
export class WireClient {
  readonly socket: Socket
  /** Received bytes that belong to no response yet. */
  text = ''
  isClosed = false
  #notify = (): void => {}

  constructor (url: string) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    this.socket.on('error', () => {}).on('data', chunk => {
      this.text += chunk.toString('latin1')
      this.#notify()
    }).on('end', () => {
      this.socket.end()
    }).on('close', () => {
      this.isClosed = true
      this.#notify()
    })
  }

  /** Sends bytes, and later pieces once varve, which runs in this process, has had time to read those before. */
  async write (pieces: readonly Buffer[]): Promise<void> {
    for (const [at, piece] of pieces.entries()) {
      if (at > 0) { for (let turn = 0; turn < 20; turn++) await yieldTurn() }
      await new Promise<void>(resolve => {
        this.socket.write(piece, () => {
          resolve()
        })
      })
    }
  }

  /** Sends a request and waits for the single response. */
  async send (request: string): Promise<WireResponse> {
    if (this.text !== '') throw new Error(`unrequested bytes: ${this.text.slice(0, 200)}`)
    this.socket.write(request)
    return await this.#once(() => this.take('GET'))
  }

  /** Waits until the connection is closed, or until a condition holds. */
  async closed (orUntil: () => boolean = () => false): Promise<void> {
    await this.#once(() => this.isClosed || orUntil() ? true : undefined)
  }

  /** Removes the next response from the received bytes; undefined while it is incomplete. */
  take (method: string): WireResponse | undefined {
    const read = readResponse(this.text, method, this.isClosed)
    if (read === undefined) return undefined
    this.text = this.text.slice(read.length)
    return read.response.status === 100 ? this.take(method) : read.response
  }

  close (): void {
    this.socket.destroy()
  }

  async #once<Value> (look: () => Value | undefined): Promise<Value> {
    return await new Promise(resolve => {
      this.#notify = () => {
        const found = look()
        if (found === undefined) return
        this.#notify = () => {}
        resolve(found)
      }
      this.#notify()
    })
  }
}

/** Opens a connection that ends with the test. */
export function openWire (t: Test, url: string): WireClient {
  const client = new WireClient(url)
  t.teardown(() => {
    client.close()
  })
  return client
}

/** Reads the first response strictly by its framing; one without a length is complete when the connection closes. */
function readResponse (
  text: string,
  method: string,
  isClosed: boolean
): { response: WireResponse, length: number } | undefined {
  const end = text.indexOf('\r\n\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? 0)
  const found = { status, head: text.slice(0, end + 2), headers: new Map<string, string>() }
  if (end === -1 || status === 0) {
    const response = { ...found, head: text, body: '', isWhole: false }
    return isClosed ? { response, length: text.length } : undefined
  }
  for (const line of found.head.split('\r\n').slice(1, -1)) {
    const [, name = '', value = ''] = /^([^:]*): *(.*?)\s*$/.exec(line) ?? []
    const before = found.headers.get(name.toLowerCase())
    found.headers.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`)
  }
  const rest = text.slice(end + 4)
  const body = bodyIn(rest, found, method, isClosed)
  if (body !== undefined) {
    return { response: { ...found, body: body.text, isWhole: true }, length: end + 4 + body.length }
  }
  return isClosed ? { response: { ...found, body: rest, isWhole: false }, length: text.length } : undefined
}

function bodyIn (
  rest: string,
  { status, headers }: Pick<WireResponse, 'status' | 'headers'>,
  method: string,
  isClosed: boolean
): { text: string, length: number } | undefined {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return { text: '', length: 0 }
  if (headers.get('transfer-encoding') === 'chunked') return chunksIn(rest)
  const length = headers.get('content-length')
  if (length === undefined) return isClosed ? { text: rest, length: rest.length } : undefined
  return rest.length >= Number(length) ? { text: rest.slice(0, Number(length)), length: Number(length) } : undefined
}

function chunksIn (rest: string): { text: string, length: number } | undefined {
  let text = ''
  let at = 0
  for (;;) {
    const [line, digits = ''] = /^([0-9a-f]+)\r\n/i.exec(rest.slice(at, at + 20)) ?? []
    if (line === undefined) return undefined
    const size = Number.parseInt(digits, 16)
    const end = at + line.length + size
    if (rest.length < end + 2 || rest.slice(end, end + 2) !== '\r\n') return undefined
    text += rest.slice(at + line.length, end)
    at = end + 2
    if (size === 0) return { text, length: at }
  }
}
