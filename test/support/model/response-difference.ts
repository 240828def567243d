import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { pin } from './pinned-cursors.js'
import { type ModelRequest, headerOf } from './request.js'

/** A response as a client got it. */
export interface ModelResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly bytes: Buffer
}

const typeOf = (text: unknown): string => String(text ?? '').split(';', 1).join('')

/** Returns a header of an upstream's response. */
export const responseHeader = ({ headers }: SandboxResponse, name: string): string | undefined =>
  headers.find(([known]) => known === name)?.[1]

/** Returns the body without its coding; a text if it cannot be decoded or must not have been coded. */
export function decodedBody (sent: ModelRequest, { headers, bytes }: ModelResponse): Buffer | string {
  const coding = headers['content-encoding']
  if (typeof coding !== 'string') return bytes
  if (!takes(headerOf(sent, 'accept-encoding') ?? '', coding)) return `a body in ${coding}, which was not requested`
  if (sent.method === 'HEAD') return bytes
  try {
    if (coding === 'br') return brotliDecompressSync(bytes)
    if (coding === 'gzip') return gunzipSync(bytes)
  } catch {
    return `a body that is not ${coding}`
  }
  return `an unknown coding: ${coding}`
}

function takes (acceptEncoding: string, coding: string): boolean {
  const items = acceptEncoding.toLowerCase().split(',').map(item => item.trim())
  return items.some(item =>
    new RegExp(`^(?:x-)?(?:${coding}|\\*)(?:$|[ ;])`).test(item) && !/;\s*q=0(?:\.0*)?$/.test(item)
  )
}

/**
 * Returns the difference between a response and the upstream's, byte for byte, or undefined. A cursor may have to carry
 * a version.
 */
export function responseDifference (
  sent: ModelRequest,
  got: ModelResponse,
  right: SandboxResponse,
  pinned?: bigint
): string | undefined {
  if (got.status !== right.status) return `${got.status} for ${right.status}`
  const body = decodedBody(sent, got)
  if (typeof body === 'string') return body
  if (sent.method !== 'HEAD') {
    if (!body.equals(right.body)) return `another body: ${shortened(body)} for ${shortened(right.body)}`
  } else if (
    got.headers['content-encoding'] === undefined && got.headers['content-length'] !== String(right.body.length)
  ) return `a head of ${String(got.headers['content-length'])} bytes for ${right.body.length}`
  if (typeOf(got.headers['content-type']) !== typeOf(responseHeader(right, 'content-type'))) {
    return `${String(got.headers['content-type'])} for ${responseHeader(right, 'content-type')}`
  }
  const own = responseHeader(right, 'x-aptos-cursor')
  const cursor = own === undefined || pinned === undefined ? own : pin(pinned, own)
  if (got.headers['x-aptos-cursor'] !== cursor) {
    return `the cursor ${String(got.headers['x-aptos-cursor'])} for ${cursor}`
  }
  return undefined
}

const shortened = (body: Buffer): string =>
  JSON.stringify(body.length > 300 ? `${body.toString('latin1', 0, 300)}... (${body.length})` : body.toString('latin1'))
