import { connect, type Socket } from 'node:net'
import { type ModelRequest, rawRequestBytes } from './request.js'

/** A response as it came over the wire; status 0 if the connection closed without one. */
export interface RawResponse {
  readonly status: number
  /** By lower-case name, with repeated fields joined. */
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Buffer
}

const none: RawResponse = { status: 0, headers: {}, bytes: Buffer.alloc(0) }
// Limit for a response, far above any real one.
const hangLimitMs = 10_000

/** Kept-alive connections to one server. */
export class RawConnections {
  readonly #host: string
  readonly #port: number
  readonly #idle: Socket[] = []
  readonly #all = new Set<Socket>()

  constructor (url: string) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
  }

  /** Sends a request exactly as given and resolves with the whole response. */
  async send (sent: ModelRequest): Promise<RawResponse> {
    const socket = this.#idle.pop() ?? this.#open()
    return await new Promise((resolve, reject) => {
      const reading = new RawResponseReader(sent.method === 'HEAD')
      const finish = (response: RawResponse, isOpen: boolean): void => {
        socket.removeAllListeners().on('error', () => {})
        socket.setTimeout(0)
        if (isOpen && reading.isReusable) {
          this.#idle.push(socket.once('close', () => {
            this.#drop(socket)
          }))
        } else this.#drop(socket)
        resolve(response)
      }
      socket.removeAllListeners()
      socket.on('error', () => {})
      socket.on('data', (chunk: Buffer) => {
        const response = reading.take(chunk)
        if (response !== undefined) finish(response, true)
      })
      socket.once('close', () => {
        finish(reading.end() ?? none, false)
      })
      socket.setTimeout(hangLimitMs, () => {
        this.#drop(socket)
        reject(new Error(`no response in ${hangLimitMs} ms`))
      })
      socket.write(rawRequestBytes(sent))
    })
  }

  close (): void {
    for (const socket of this.#all) socket.destroy()
  }

  #open (): Socket {
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true })
    this.#all.add(socket)
    return socket
  }

  #drop (socket: Socket): void {
    socket.removeAllListeners().on('error', () => {}).destroy()
    this.#remove(socket)
  }

  #remove (socket: Socket): void {
    this.#all.delete(socket)
    const at = this.#idle.indexOf(socket)
    if (at !== -1) this.#idle.splice(at, 1)
  }
}

interface Head {
  readonly status: number
  readonly headers: Record<string, string>
  readonly bodyAt: number
}

/** Reads one response as it arrives. */
class RawResponseReader {
  readonly #isHead: boolean
  #bytes: Buffer = Buffer.alloc(0)
  #head: Head | undefined
  isReusable = false

  constructor (isHead: boolean) {
    this.#isHead = isHead
  }

  /** Returns the response once it is complete. */
  take (chunk: Buffer): RawResponse | undefined {
    this.#bytes = this.#bytes.length === 0 ? chunk : Buffer.concat([this.#bytes, chunk])
    this.#head ??= this.#readHead()
    if (this.#head === undefined) return undefined
    const { status, headers, bodyAt } = this.#head
    const body = this.#bytes.subarray(bodyAt)
    const whole = this.#isHead || status === 304 || status === 204
      ? { bytes: body.subarray(0, 0), length: 0 }
      : framed(body, headers)
    if (whole === undefined) return undefined
    // Drops a connection with bytes after the response.
    this.isReusable = whole.length === body.length && headers['connection']?.toLowerCase() !== 'close'
    return { status, headers, bytes: whole.bytes }
  }

  /** Returns the bytes at the end of the connection as a response, if the close marks its end. */
  end (): RawResponse | undefined {
    if (this.#head === undefined) return undefined
    const { status, headers, bodyAt } = this.#head
    const isOpenEnded = headers['content-length'] === undefined && headers['transfer-encoding'] === undefined
    return isOpenEnded ? { status, headers, bytes: this.#bytes.subarray(bodyAt) } : undefined
  }

  #readHead (): Head | undefined {
    const end = this.#bytes.indexOf('\r\n\r\n')
    if (end === -1) return undefined
    const [first = '', ...lines] = this.#bytes.toString('latin1', 0, end).split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1] ?? NaN)
    if (Number.isNaN(status)) throw new Error(`no response begins with ${JSON.stringify(first)}`)
    if (status < 200) {
      this.#bytes = this.#bytes.subarray(end + 4)
      return this.#readHead()
    }
    const headers: Record<string, string> = {}
    for (const line of lines) {
      const [, name = '', value = ''] = /^([^\s:]+):[ \t]*(.*)$/.exec(line) ?? []
      const known = name.toLowerCase()
      headers[known] = headers[known] === undefined ? value : `${headers[known]}, ${value}`
    }
    return { status, headers, bodyAt: end + 4 }
  }
}

function framed (
  body: Buffer,
  headers: Readonly<Record<string, string>>
): { bytes: Buffer, length: number } | undefined {
  if (headers['transfer-encoding'] !== undefined) return dechunked(body)
  if (headers['content-length'] === undefined) return undefined
  const length = Number(headers['content-length'])
  return body.length < length ? undefined : { bytes: body.subarray(0, length), length }
}

function dechunked (body: Buffer): { bytes: Buffer, length: number } | undefined {
  const parts: Buffer[] = []
  for (let at = 0;;) {
    const lineEnd = body.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = parseInt(body.toString('latin1', at, lineEnd), 16)
    const end = lineEnd + 2 + size
    if (body.length < end + 2) return undefined
    if (size === 0) return { bytes: Buffer.concat(parts), length: end + 2 }
    parts.push(body.subarray(lineEnd + 2, end))
    at = end + 2
  }
}
