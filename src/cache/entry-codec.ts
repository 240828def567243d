import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { crc32, deflateRaw, inflateRaw } from 'node:zlib'
import { headerSuffix, isHeaderPrefix, type ResponsePosition } from '../api/position.js'
import { familyOfKey } from '../api/read.js'
import { ByteReader, ByteWriter } from './byte-codec.js'
import { type Entry, computeEtag } from './entry.js'
import { printHeaders } from './print-headers.js'

/** Entry in a tier below memory, with the upstream values that another process needs to serve it. */
export interface StoredEntry
  extends Pick<Entry, 'key' | 'status' | 'contentType' | 'body' | 'etag' | 'release' | 'lowestVersion' | 'validity'> {
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
  /** Position of the upstream response, and the family of its header names. */
  readonly stamped: ResponsePosition
}

/** Format version, part of every value and key, so replicas with different formats never read each other's entries. */
export const entryFormat = 1

// Layout: 'VRV' and the format, a checksum, a digest of the key, the content. The checksum covers digest and content.
const magic = Buffer.from([0x56, 0x52, 0x56, entryFormat])
const checksumAt = 4
const digestAt = 8
const digestLength = 16
const contentAt = digestAt + digestLength
const compressAboveBytes = 4096
// Higher levels take several times the processor time for a few percent.
const deflateOptions = { level: 1 }
/** Bytes of the longest value beside its body: six texts and the numbers. */
export const mostBytesBesideBody = 6 * 65_537 + 1024

const flags = { deflated: 1, range: 2, lowestVersion: 4, release: 8, cursor: 16, gasUsed: 32, epoch: 64 } as const

/**
 * Error for a value that differs from the value written under its key (law 13: what was stored elsewhere is checked
 * before it is trusted).
 */
export class CorruptEntryError extends Error {}

/** Error for a value whose body is longer than an entry may be here, as after a change of `cache.maxEntryMb`. */
export class LargeEntryError extends CorruptEntryError {}

/** Encodes an entry as one binary value, a long body compressed; README.md has the layout. */
export async function encodeEntry (stored: StoredEntry, isCompressed = true): Promise<Buffer> {
  const { body, stamped: { position, family }, validity: range, lowestVersion, release, cursor, gasUsed } = stored
  const deflated = isCompressed && body.length > compressAboveBytes
    ? await promisify(deflateRaw)(body, deflateOptions)
    : undefined
  const isDeflated = deflated !== undefined && deflated.length < body.length
  const { head, oldest } = position
  const writer = new ByteWriter()
  writer.bytes(digestOf(stored.key))
  writer.u16(stored.status)
  writer.u8(
    (isDeflated ? flags.deflated : 0) | flagFor(range, flags.range) | flagFor(lowestVersion, flags.lowestVersion) |
      flagFor(release, flags.release) |
      flagFor(cursor, flags.cursor) | flagFor(gasUsed, flags.gasUsed) | flagFor(head.epoch, flags.epoch)
  )
  writer.u8(position.chainId)
  for (const value of [head.version, head.timestampUsec, head.blockHeight, oldest.version, oldest.blockHeight]) {
    writer.u64(value)
  }
  for (const value of [head.epoch, range?.first, range?.last, lowestVersion]) if (value !== undefined) writer.u64(value)
  for (const text of [family, stored.contentType, stored.etag, release, cursor, gasUsed]) {
    if (text !== undefined) writer.text(text)
  }
  writer.u32(body.length)
  writer.bytes(isDeflated ? deflated : body)
  const content = writer.toBuffer()
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(content))
  return Buffer.concat([magic, checksum, content])
}

/**
 * Decodes a value and verifies it (law 13: what was stored elsewhere is checked before it is trusted); any mismatch
 * throws a CorruptEntryError, and a body above `maxBytes` a LargeEntryError.
 */
export async function decodeEntry (key: string, value: Buffer, maxBytes = Infinity): Promise<StoredEntry> {
  if (value.length < contentAt || !value.subarray(0, checksumAt).equals(magic)) {
    throw new CorruptEntryError('another form')
  }
  const content = value.subarray(digestAt)
  if (crc32(content) !== value.readUInt32BE(checksumAt)) throw new CorruptEntryError('altered')
  const reader = new ByteReader(content)
  if (!reader.bytes(digestLength).equals(digestOf(key))) throw new CorruptEntryError('another key')
  try {
    return await readContent(key, reader, maxBytes)
  } catch (error) {
    throw error instanceof CorruptEntryError ? error : new CorruptEntryError('unreadable', { cause: error })
  }
}

async function readContent (key: string, reader: ByteReader, maxBytes: number): Promise<StoredEntry> {
  const status = reader.u16()
  if (status !== 200 && status !== 404) throw new CorruptEntryError('no such status')
  const flagBits = reader.u8()
  const chainId = reader.u8()
  const [version, timestampUsec, blockHeight, oldestVersion, oldestHeight] = [
    reader.u64(),
    reader.u64(),
    reader.u64(),
    reader.u64(),
    reader.u64()
  ]
  const epoch = flagBits & flags.epoch ? reader.u64() : undefined
  const range = flagBits & flags.range ? { first: reader.u64(), last: reader.u64() } : undefined
  const validity = range && { family: familyOfKey(key), ...range }
  const lowestVersion = flagBits & flags.lowestVersion ? reader.u64() : undefined
  const [family, contentType, etag] = [reader.text(), reader.text(), reader.text()]
  const release = flagBits & flags.release ? reader.text() : undefined
  const cursor = flagBits & flags.cursor ? reader.text() : undefined
  const gasUsed = flagBits & flags.gasUsed ? reader.text() : undefined
  const length = reader.u32()
  // Checks the length before it inflates: 390 KB may inflate to a gigabyte.
  if (length > maxBytes) throw new LargeEntryError('too long')
  const packed = reader.rest()
  const body = flagBits & flags.deflated ? await promisify(inflateRaw)(packed, { maxOutputLength: length }) : packed
  // Checks texts that become headers: an invalid header would fail every response that carries it.
  const rawHeaders = [
    'content-type',
    contentType,
    headerSuffix.cursor,
    cursor ?? '',
    headerSuffix.gasUsed,
    gasUsed ?? ''
  ]
  if (
    !isHeaderPrefix(family) ||
    printHeaders(rawHeaders) === undefined
  ) throw new CorruptEntryError('no header lines')
  // The ETag is a strong digest of content type and body, so it also detects damage before encoding.
  if (body.length !== length || computeEtag(contentType, body) !== etag) throw new CorruptEntryError('another body')
  const position = {
    chainId,
    head: { version, timestampUsec, epoch, blockHeight },
    oldest: { version: oldestVersion, blockHeight: oldestHeight }
  }
  return {
    key,
    status,
    contentType,
    body,
    etag,
    release,
    lowestVersion,
    cursor,
    gasUsed,
    validity,
    stamped: { position, family }
  }
}

function digestOf (key: string): Buffer {
  return createHash('sha256').update(key).digest().subarray(0, digestLength)
}

function flagFor (value: unknown, flag: number): number {
  return value === undefined ? 0 : flag
}
