import { type TrueResponse } from './read-kinds.js'

/** Bytes that an upstream sends instead of the truth, and the end of the connection. */
export interface ScriptedBytes {
  readonly bytes: string
  readonly then: 'keep' | 'end' | 'hang'
  /** Pause between bytes, if they are sent one at a time. */
  readonly everyMs?: number
  /** Text that follows without end, as fast as the peer reads. */
  readonly endless?: string
}

/** Changes that turn a true response into a false one. */
export interface ResponseChange {
  readonly first?: string
  readonly type?: string | null
  readonly stamps?: Readonly<Record<string, string | null>>
  /** Further header lines, before the length. */
  readonly lines?: readonly string[]
  /** Header lines that mark the end; by default the true length. */
  readonly framing?: readonly string[]
  readonly body?: string
}

/** Returns a response as bytes on the wire, with changes; a character stands for each byte. */
export function responseBytes (
  truth: TrueResponse,
  { first = 'HTTP/1.1 200 OK', type = truth.type, stamps = {}, lines = [], framing, body = truth.body }:
    ResponseChange = {}
): string {
  const stamped = Object.entries({ ...truth.positionHeaders, ...stamps }).flatMap(([name, value]) =>
    value === null ? [] : [`${name}: ${value}`]
  )
  const head = [
    first,
    ...(type === null ? [] : [`content-type: ${type}`]),
    ...stamped,
    ...lines,
    ...(framing ?? [`content-length: ${body.length}`])
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** Returns a body in chunks, and trailers after the last one. */
export function encodeChunked (body: string, trailers = ''): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailers}\r\n`
}

/** Sends the bytes and keeps the connection open. */
export const thenKeepAlive = (bytes: string): ScriptedBytes => ({ bytes, then: 'keep' })

/** Sends the bytes and closes the connection. */
export const thenEnd = (bytes: string): ScriptedBytes => ({ bytes, then: 'end' })

/** Sends the bytes and then nothing more. */
export const thenHang = (bytes: string): ScriptedBytes => ({ bytes, then: 'hang' })
