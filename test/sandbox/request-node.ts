import { type IncomingHttpHeaders } from 'node:http'
import { sendRequest } from '../support/client.js'
import { sendRaw } from '../support/raw.js'

/** Response of the sandbox as it came. */
export interface NodeResponse {
  status: number
  headers: IncomingHttpHeaders
  names: readonly string[]
  body: Buffer
  text: string
  json: any
}

/** Sends a real HTTP request on its own connection, and parses what comes. */
export async function requestNode (
  url: string,
  options: { method?: string, headers?: Record<string, string>, body?: string | Buffer } = {}
): Promise<NodeResponse> {
  const { origin, pathname, search } = new URL(url)
  const { status, headers, rawNames: names, bytes, body: text } = await sendRequest(origin, pathname + search, options)
  return { status, headers, names, body: bytes, text, json: parsed(text) }
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
