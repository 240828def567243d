import { Agent, type IncomingHttpHeaders, request } from 'node:http'

/** A whole response, with its header names as received. */
export interface TestResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly rawNames: readonly string[]
  readonly body: string
  readonly bytes: Buffer
}

/** Optional parts of a request. */
export interface TestRequest {
  readonly method?: string
  readonly headers?: Record<string, string | string[]>
  readonly body?: string | Buffer
  readonly agent?: Agent
  /** Source address of the connection. */
  readonly localAddress?: string
}

/** Sends a request target exactly as given. */
export async function sendRequest (
  base: string,
  target: string,
  { method, headers, body, agent, localAddress }: TestRequest = {}
): Promise<TestResponse> {
  return await new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base)
    const sent = request({
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port,
      path: target,
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers,
      agent: agent ?? new Agent(),
      localAddress
    }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const bytes = Buffer.concat(chunks)
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          rawNames: response.rawHeaders.filter((_, at) => at % 2 === 0),
          bytes,
          get body () {
            return bytes.toString()
          }
        })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** A table item look-up. */
export function tableItemLookup (keyType: string, key: string, valueType = 'u64'): TestRequest {
  return {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"key_type":"${keyType}","value_type":"${valueType}","key":${key}}`
  }
}

/** Sends a GET to a unix socket on a connection of its own. */
export async function requestSocket (
  socketPath: string,
  path: string,
  headers: Record<string, string> = {}
): Promise<{ status: number, headers: IncomingHttpHeaders }> {
  return await new Promise((resolve, reject) => {
    request({ socketPath, path, headers, agent: false }, response => {
      response.resume().on('end', () => {
        resolve({ status: response.statusCode ?? 0, headers: response.headers })
      })
    }).on('error', reject).end()
  })
}
