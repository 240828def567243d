import { type TrueResponse } from './read-kinds.js'

/** What a node says in place of the truth, and what it does with the connection then. */
export interface ScriptedBytes {
  readonly bytes: string
  readonly then: 'keep' | 'end' | 'hang'
  /** A byte at a time, with so much time between them. */
  readonly everyMs?: number
  /** What follows without end, as fast as it is taken. */
  readonly endless?: string
}

/** What of a true answer a lie changes. */
export interface ResponseChange {
  readonly first?: string
  readonly type?: string | null
  readonly stamps?: Readonly<Record<string, string | null>>
  /** Further lines, before the one of the length. */
  readonly lines?: readonly string[]
  /** What marks the end; by default the true length. */
  readonly framing?: readonly string[]
  readonly body?: string
}

/** An answer as it goes onto the wire: the truth, but for what is changed. A byte stands for each character. */
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

/** A body in chunks, with what is to follow the last of them. */
export function encodeChunked (body: string, trailers = ''): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n${trailers}\r\n`
}

/** Says it and keeps the connection. */
export const thenKeep = (bytes: string): ScriptedBytes => ({ bytes, then: 'keep' })

/** Says it and ends the connection. */
export const thenEnd = (bytes: string): ScriptedBytes => ({ bytes, then: 'end' })

/** Says it and then nothing any more. */
export const thenHang = (bytes: string): ScriptedBytes => ({ bytes, then: 'hang' })
