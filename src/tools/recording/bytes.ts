import { isUtf8 } from 'node:buffer'
import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

/** A body as a line of a recording has it. */
export interface WrittenBytes {
  readonly body?: string | undefined
  readonly base64?: string | undefined
  readonly leftOut?: string | undefined
}

// What is more than text, such as BCS that happens to be UTF-8, nobody could read or edit.
// eslint-disable-next-line no-control-regex -- control characters are what is looked for.
const unprintable = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/

/** A body as it is written: text as it reads, anything else in base64, nothing where there is none. */
export function written (bytes: Buffer): WrittenBytes {
  if (bytes.length === 0) return {}
  const text = isUtf8(bytes) ? bytes.toString() : undefined
  return text === undefined || unprintable.test(text) ? { base64: bytes.toString('base64') } : { body: text }
}

/** The bytes of a body that was written. */
export function bytesOf ({ body, base64 }: WrittenBytes): Buffer {
  return base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(base64, 'base64')
}

/**
 * The bytes that a coding stands for, as far as they came; undefined where it is another coding, they are none of it,
 * or are more than so many.
 */
export function decoded (bytes: Buffer, coding: string, most: number): Buffer | undefined {
  const decode = decoders[coding.trim().toLowerCase()]
  try {
    return decode?.(bytes, most)
  } catch {
    return undefined
  }
}

const soFar = { finishFlush: constants.Z_SYNC_FLUSH }
const decoders: Readonly<Record<string, (bytes: Buffer, maxOutputLength: number) => Buffer>> = {
  gzip: (bytes, maxOutputLength) => gunzipSync(bytes, { maxOutputLength, ...soFar }),
  deflate: (bytes, maxOutputLength) => inflateSync(bytes, { maxOutputLength, ...soFar }),
  br: (bytes, maxOutputLength) =>
    brotliDecompressSync(bytes, { maxOutputLength, finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  identity: bytes => bytes
}
