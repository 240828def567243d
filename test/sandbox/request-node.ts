import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'

/** Response of the sandbox as it came. */
export interface NodeResponse {
  status: number
  headers: IncomingHttpHeaders
  names: string[]
  body: Buffer
  text: string
  json: any
}

/** Sends a real HTTP request on its own connection. */
export async function requestNode (
  url: string,
  options: { method?: string, headers?: Record<string, string>, body?: string | Buffer } = {}
): Promise<NodeResponse> {
  const body = options.body === undefined ? undefined : Buffer.from(options.body)
  return await new Promise((resolve, reject) => {
    const outgoing = request(url, {
      method: options.method ?? 'GET',
      headers: { ...body && { 'content-length': body.length }, ...options.headers },
      agent: false
    }, incoming => {
      const chunks: Buffer[] = []
      incoming.on('data', chunk => chunks.push(chunk))
      incoming.on('error', reject)
      incoming.on('end', () => {
        const whole = Buffer.concat(chunks)
        const text = whole.toString()
        resolve({
          status: incoming.statusCode ?? 0,
          headers: incoming.headers,
          names: incoming.rawHeaders.filter((_, index) => index % 2 === 0),
          body: whole,
          text,
          json: parsed(text)
        })
      })
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

/** Looks up a table item. */
export async function requestTableItem (
  base: string,
  request: unknown,
  query = '',
  handle = '0x1',
  headers: Record<string, string> = {}
): Promise<NodeResponse> {
  const body = typeof request === 'string' || Buffer.isBuffer(request) ? request : JSON.stringify(request)
  return await requestNode(`${base}/v1/tables/${handle}/item${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body
  })
}

/** Sends bytes, and returns everything until the server ends the connection. */
export async function sendRaw (base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base)
  return await new Promise(resolve => {
    let received = ''
    const socket = connect(Number(port), hostname, () => socket.write(bytes, 'latin1'))
    socket.on('data', chunk => {
      received += chunk.toString('latin1')
    })
    socket.on('error', error => {
      received += `(${(error as NodeJS.ErrnoException).code})`
    })
    socket.on('close', () => resolve(received))
  })
}

/** Sends a raw GET that ends its connection. */
export async function getRaw (base: string, target: string): Promise<string> {
  return await sendRaw(base, `GET ${target} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n`)
}

function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
