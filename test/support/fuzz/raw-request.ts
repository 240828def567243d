import { type ReceivedRequest } from '../../../sandbox/respond.js'

/** A request to the letter, short enough to stand in a line of JSON. */
export interface RawRequest {
  readonly method: string
  readonly target: string
  /** All lines but Host and the length of the body. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  /** A letter for each byte. */
  readonly body?: string
  /** Its body goes in two chunks, without its length. */
  readonly isChunked?: true
}

/** The letters that stand for the bytes of a text. */
export const latin1Of = (text: string): string => Buffer.from(text).toString('latin1')

/** The bytes that go onto the wire. */
export function rawRequestBytes ({ method, target, headers, body, isChunked }: RawRequest): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, 'host: fuzz', ...headers.map(([name, value]) => `${name}: ${value}`)]
  if (body !== undefined) lines.push(isChunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`)
  return Buffer.from(
    [...lines, '', isChunked && body !== undefined ? chunksOf(body) : body ?? ''].join('\r\n'),
    'latin1'
  )
}

/** What a header comes to where a line of it is repeated: Node takes the first content type, and joins all else. */
export function headerOf ({ headers }: RawRequest, name: string): string | undefined {
  const values = headers.filter(([known]) => known.toLowerCase() === name).map(([, value]) =>
    value.replace(/^[ \t]+|[ \t]+$/g, '')
  )
  return values.length === 0 ? undefined : name === 'content-type' ? values[0] : values.join(', ')
}

/** The request as whoever passes it on sends it: without the lines that Connection names (RFC 9110, section 7.6.1). */
export function asForwarded (sent: RawRequest): RawRequest {
  const named = (headerOf(sent, 'connection') ?? '').toLowerCase().split(',').map(name => name.trim())
  return { ...sent, headers: sent.headers.filter(([name]) => !named.includes(name.toLowerCase())) }
}

/** The request as a node receives it, its length told. */
export function receivedOf (sent: RawRequest): ReceivedRequest {
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
