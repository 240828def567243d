import { type ReceivedRequest } from '../../../sandbox/dispatch.js'
import { type TestRequest } from '../client.js'

/** A request exactly, short enough for a line of JSON. */
export interface ModelRequest {
  readonly method: string
  readonly target: string
  /** All header fields except Host and the body's length. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** One character per byte. */
  readonly body?: string
  /** True if the body goes in two chunks, without length. */
  readonly isChunked?: true
}

/** Returns a text's bytes as characters. */
export const latin1Of = (text: string): string => Buffer.from(text).toString('latin1')

/** Returns the bytes on the wire. */
export function rawRequestBytes ({ method, target, headers, body, isChunked }: ModelRequest): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, 'host: fuzz', ...headers.map(([name, value]) => `${name}: ${value}`)]
  if (body !== undefined) lines.push(isChunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`)
  return Buffer.from(
    [...lines, '', isChunked && body !== undefined ? chunksOf(body) : body ?? ''].join('\r\n'),
    'latin1'
  )
}

/** Returns a header as Node.js sees it: the first content type, and repeated fields joined otherwise. */
export function headerOf ({ headers }: ModelRequest, name: string): string | undefined {
  const values = headers.filter(([known]) => known.toLowerCase() === name).map(([, value]) =>
    value.replace(/^[ \t]+|[ \t]+$/g, '')
  )
  return values.length === 0 ? undefined : name === 'content-type' ? values[0] : values.join(', ')
}

/**
 * Returns the request as a proxy forwards it: without header fields that Connection names (RFC 9110, section 7.6.1).
 */
export function asForwarded (sent: ModelRequest): ModelRequest {
  const named = (headerOf(sent, 'connection') ?? '').toLowerCase().split(',').map(name => name.trim())
  return { ...sent, headers: sent.headers.filter(([name]) => !named.includes(name.toLowerCase())) }
}

/** Returns the options by which a client sends the request; fields with equal names would be lost. */
export function testRequestOf ({ method, headers, body }: ModelRequest): TestRequest {
  return {
    method,
    headers: Object.fromEntries(headers),
    ...(body !== undefined && { body: Buffer.from(body, 'latin1') })
  }
}

/** Returns the request as a node receives it, with its length. */
export function receivedOf (sent: ModelRequest): ReceivedRequest {
  const { method, target, body } = sent
  return {
    method,
    rawTarget: target,
    accept: headerOf(sent, 'accept'),
    contentType: headerOf(sent, 'content-type'),
    contentLength: body === undefined ? undefined : String(body.length),
    body: Buffer.from(body ?? '', 'latin1'),
    requestIndex: 0
  }
}

function chunksOf (body: string): string {
  const half = Math.ceil(body.length / 2)
  const chunks = [body.slice(0, half), body.slice(half)].filter(text => text !== '')
  return [...chunks, ''].map(text => `${text.length.toString(16)}\r\n${text}\r\n`).join('')
}
