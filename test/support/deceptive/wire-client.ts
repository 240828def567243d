import { connect, type Socket } from 'node:net'

/** A response exactly as it came over the wire. */
export interface WireResponse {
  readonly status: number
  /** Head as text in lower case. */
  readonly head: string
  readonly headerLines: ReadonlyArray<readonly [string, string]>
  readonly body: string
  /**
   * End of the body: its length, the last chunk, none but the close of the connection, or a close before or after the
   * promised end.
   */
  readonly end: 'length' | 'chunks' | 'none' | 'closed' | 'broken'
}

/** A connection to varve that accounts for every byte. */
export class WireClient {
  readonly #socket: Socket
  #text = ''
  #isClosed = false
  #look = (): void => {}

  constructor (url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect(Number(port), hostname)
    this.#socket.setNoDelay()
    this.#socket.on('error', () => {})
    this.#socket.on('data', chunk => {
      this.#text += chunk.toString('latin1')
      this.#look()
    })
    this.#socket.on('close', () => {
      this.#isClosed = true
      this.#look()
    })
  }

  /** True if the connection has ended. */
  get isClosed (): boolean {
    return this.#isClosed
  }

  /** Received bytes that belong to no response. */
  get unexpectedText (): string {
    return this.#text
  }

  /** Sends a request and waits for the single response. */
  async send (request: string): Promise<WireResponse> {
    if (this.#text !== '') throw new Error(`unrequested bytes: ${this.#text.slice(0, 200)}`)
    this.#socket.write(request)
    return await new Promise(resolve => {
      this.#look = () => {
        const read = readResponse(this.#text, this.#isClosed)
        if (read === undefined) return
        this.#look = () => {}
        this.#text = this.#text.slice(read.length)
        resolve(read.response)
      }
      this.#look()
    })
  }

  /** Closes the connection. */
  close (): void {
    this.#socket.destroy()
  }
}

function readResponse (text: string, isClosed: boolean): { response: WireResponse, length: number } | undefined {
  const at = text.indexOf('\r\n\r\n')
  if (at === -1) {
    return isClosed
      ? { response: { status: 0, head: text, headerLines: [], body: '', end: 'broken' }, length: text.length }
      : undefined
  }
  const [first = '', ...rest] = text.slice(0, at).split('\r\n')
  const headerLines = rest.map((
    line
  ): [string, string] => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()])
  const found = {
    status: Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1] ?? -1),
    head: text.slice(0, at).toLowerCase(),
    headerLines
  }
  const valueOf = (name: string): string | undefined => headerLines.find(([other]) => other === name)?.[1]
  const from = at + 4
  const body = text.slice(from)
  if (found.status === 304 || found.status === 204) {
    return { response: { ...found, body: '', end: 'none' }, length: from }
  }
  const length = valueOf('content-length')
  if (length !== undefined) {
    const size = /^\d+$/.test(length) ? Number(length) : NaN
    if (body.length >= size) {
      return { response: { ...found, body: body.slice(0, size), end: 'length' }, length: from + size }
    }
  } else if (valueOf('transfer-encoding') === 'chunked') {
    const read = readChunks(body)
    if (read !== undefined) {
      return { response: { ...found, body: read.body, end: 'chunks' }, length: from + read.length }
    }
  } else if (isClosed) return { response: { ...found, body, end: 'closed' }, length: text.length }
  return isClosed ? { response: { ...found, body, end: 'broken' }, length: text.length } : undefined
}

function readChunks (text: string): { body: string, length: number } | undefined {
  let body = ''
  let at = 0
  for (;;) {
    const end = text.indexOf('\r\n', at)
    if (end === -1) return undefined
    const line = text.slice(at, end)
    if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`varve sent a chunk of size ${line}`)
    const size = parseInt(line, 16)
    const next = end + 2 + size + 2
    if (text.length < next) return undefined
    if (text.slice(next - 2, next) !== '\r\n') throw new Error('varve sent a chunk that does not end')
    if (size === 0) return { body, length: next }
    body += text.slice(end + 2, next - 2)
    at = next
  }
}
