import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { crc32, deflateRaw, inflateRaw } from 'node:zlib'
import { isFamily, type StampedPosition } from '../api/position.js'
import { ByteReader, ByteWriter } from './bytes.js'
import { type Entry, tagOf } from './entry.js'
import { printed } from './printed.js'

/** An answer as replicas share it: the entry, and what of the node's answer another replica needs to make one. */
export interface Stored
  extends Pick<Entry, 'key' | 'status' | 'contentType' | 'body' | 'etag' | 'release' | 'lowestVersion'> {
  readonly cursor: string | undefined
  readonly gasUsed: string | undefined
  /** The position that it was read at, and the family of header names that it came under. */
  readonly stamped: StampedPosition
  /** The versions of the block that it is. */
  readonly range: VersionRange | undefined
}

/** The versions of a block. */
export interface VersionRange {
  readonly first: bigint
  readonly last: bigint
}

/** The version of the form, in every value and in every key: replicas of two versions never read each other's. */
export const storedFormat = 1

// 'VRV' and the format; the checksum; the digest of the key; then what the checksum is of, the digest included.
const magic = Buffer.from([0x56, 0x52, 0x56, storedFormat])
const checksumAt = 4
const digestAt = 8
const digestLength = 16
const contentAt = digestAt + digestLength
const compressAbove = 4096

const flags = { deflated: 1, range: 2, lowestVersion: 4, release: 8, cursor: 16, gasUsed: 32, epoch: 64 } as const

/** A value that is not, in every bit, what was written under its key. */
export class CorruptEntry extends Error {}

/** A value whose body is longer than whoever reads it has room for. */
export class TooLong extends CorruptEntry {}

/** The one binary value of an answer; ARCHITECTURE.md has the form. */
export async function encodeStored (stored: Stored): Promise<Buffer> {
  const { body, stamped: { position, family }, range, lowestVersion, release, cursor, gasUsed } = stored
  const deflated = body.length > compressAbove ? await promisify(deflateRaw)(body) : undefined
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
  const content = writer.whole()
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(content))
  return Buffer.concat([magic, checksum, content])
}

/** The same answer under another key. */
export function keyedAnew (value: Buffer, key: string): Buffer {
  const other = Buffer.from(value)
  digestOf(key).copy(other, digestAt)
  other.writeUInt32BE(crc32(other.subarray(digestAt)), checksumAt)
  return other
}

/**
 * Reads a value that was found under a key; throws a CorruptEntry for what was not written there, and for a body that
 * is longer than allowed.
 */
export async function decodeStored (key: string, value: Buffer, longest = Infinity): Promise<Stored> {
  if (value.length < contentAt || !value.subarray(0, checksumAt).equals(magic)) throw new CorruptEntry('another form')
  const content = value.subarray(digestAt)
  if (crc32(content) !== value.readUInt32BE(checksumAt)) throw new CorruptEntry('altered')
  const reader = new ByteReader(content)
  if (!reader.bytes(digestLength).equals(digestOf(key))) throw new CorruptEntry('another key')
  try {
    return await readContent(key, reader, longest)
  } catch (error) {
    throw error instanceof CorruptEntry ? error : new CorruptEntry('unreadable', { cause: error })
  }
}

async function readContent (key: string, reader: ByteReader, longest: number): Promise<Stored> {
  const status = reader.u16()
  if (status !== 200 && status !== 404) throw new CorruptEntry('no such status')
  const given = reader.u8()
  const chainId = reader.u8()
  const [version, timestampUsec, blockHeight, oldestVersion, oldestHeight] = [
    reader.u64(),
    reader.u64(),
    reader.u64(),
    reader.u64(),
    reader.u64()
  ]
  const epoch = given & flags.epoch ? reader.u64() : undefined
  const range = given & flags.range ? { first: reader.u64(), last: reader.u64() } : undefined
  const lowestVersion = given & flags.lowestVersion ? reader.u64() : undefined
  const [family, contentType, etag] = [reader.text(), reader.text(), reader.text()]
  const release = given & flags.release ? reader.text() : undefined
  const cursor = given & flags.cursor ? reader.text() : undefined
  const gasUsed = given & flags.gasUsed ? reader.text() : undefined
  const length = reader.u32()
  // Before anything is made so long.
  if (length > longest) throw new TooLong('a longer body than allowed')
  const packed = reader.rest()
  const body = given & flags.deflated ? await promisify(inflateRaw)(packed, { maxOutputLength: length }) : packed
  // They go out as header lines: one that cannot would leave every read that shows it without an answer.
  if (
    !isFamily(family) ||
    printed(['content-type', contentType, 'cursor', cursor ?? '', 'gas-used', gasUsed ?? '']) === undefined
  ) throw new CorruptEntry('no header lines')
  // The tag is a strong digest of what a client will get, so it is the last word.
  if (body.length !== length || tagOf(contentType, body) !== etag) throw new CorruptEntry('another body')
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
    range,
    stamped: { position, family }
  }
}

function digestOf (key: string): Buffer {
  return createHash('sha256').update(key).digest().subarray(0, digestLength)
}

function flagFor (value: unknown, flag: number): number {
  return value === undefined ? 0 : flag
}
