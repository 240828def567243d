import { isUtf8 } from 'node:buffer'
import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib'

/** Body as a line of a recording stores it. */
export interface RecordedBody {
  readonly body?: string | undefined
  readonly base64?: string | undefined
  readonly leftOut?: string | undefined
}

// BCS can be valid UTF-8, but control characters make it unreadable for people.
// eslint-disable-next-line no-control-regex -- control characters are what is looked for.
const unprintable = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/

/** Encodes a body: readable text as it is, anything else in base64, and no field for an empty body. */
export function encodeBody (bytes: Buffer): RecordedBody {
  if (bytes.length === 0) return {}
  const text = isUtf8(bytes) ? bytes.toString() : undefined
  return text === undefined || unprintable.test(text) ? { base64: bytes.toString('base64') } : { body: text }
}

/** Decodes a recorded body. */
export function decodeBody ({ body, base64 }: RecordedBody): Buffer {
  return base64 === undefined ? Buffer.from(body ?? '') : Buffer.from(base64, 'base64')
}

/** Decompresses as many bytes as arrived; undefined for unknown codings, invalid data or output above the limit. */
export function decompressBody (bytes: Buffer, coding: string, maxBytes: number): Buffer | undefined {
  const decode = decompressors[coding.trim().toLowerCase()]
  try {
    return decode?.(bytes, maxBytes)
  } catch {
    return undefined
  }
}

const partialInput = { finishFlush: constants.Z_SYNC_FLUSH }
const decompressors: Readonly<Record<string, (bytes: Buffer, maxOutputLength: number) => Buffer>> = {
  gzip: (bytes, maxOutputLength) => gunzipSync(bytes, { maxOutputLength, ...partialInput }),
  deflate: (bytes, maxOutputLength) => inflateSync(bytes, { maxOutputLength, ...partialInput }),
  br: (bytes, maxOutputLength) =>
    brotliDecompressSync(bytes, { maxOutputLength, finishFlush: constants.BROTLI_OPERATION_FLUSH }),
  identity: bytes => bytes
}
