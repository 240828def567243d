import { crc32 } from 'node:zlib'
import { CorruptEntryError, decodeEntry, encodeEntry, entryFormat, type StoredEntry } from './entry-codec.js'
import { type FoundEntry } from './tier.js'

// Every form begins with these bytes and a checksum of the rest, so that another form is not taken for damage.
const magic = Buffer.from('VRD')
const checksumAt = 4
const writtenAt = 8
const expiresAt = 16
const valueAt = 24
const never = 2n ** 64n - 1n
// A record from further ahead was written before the clock went back, so its age is unknown.
const clockToleranceMs = 5000

/** Encodes an entry with the time of its expiry as a file of the disk tier. */
export async function encodeRecord (stored: StoredEntry, ttlMs: number, nowMs: number): Promise<Buffer> {
  const value = await encodeEntry(stored)
  const record = Buffer.alloc(valueAt + value.length)
  magic.copy(record)
  record.writeUInt8(entryFormat, magic.length)
  record.writeBigUInt64BE(BigInt(Math.round(nowMs)), writtenAt)
  record.writeBigUInt64BE(ttlMs === Infinity ? never : BigInt(Math.round(nowMs + ttlMs)), expiresAt)
  value.copy(record, valueAt)
  record.writeUInt32BE(checksumOf(record), checksumAt)
  return record
}

/**
 * Decodes a file of the disk tier (law 13: what was stored elsewhere is checked before it is trusted). Undefined means
 * expired, or another form; damage throws a CorruptEntryError.
 */
export async function decodeRecord (
  key: string,
  record: Buffer,
  maxEntryBytes: number,
  nowMs: number
): Promise<FoundEntry | undefined> {
  if (record.length < valueAt || !record.subarray(0, magic.length).equals(magic)) {
    throw new CorruptEntryError('no record')
  }
  if (checksumOf(record) !== record.readUInt32BE(checksumAt)) throw new CorruptEntryError('altered')
  if (record.readUInt8(magic.length) !== entryFormat) return undefined
  const end = record.readBigUInt64BE(expiresAt)
  const ttlMs = end === never ? Infinity : Number(end) - nowMs
  const isFromAhead = Number(record.readBigUInt64BE(writtenAt)) > nowMs + clockToleranceMs
  if (ttlMs <= 0 || (ttlMs < Infinity && isFromAhead)) return undefined
  return { stored: await decodeEntry(key, record.subarray(valueAt), maxEntryBytes), ttlMs }
}

function checksumOf (record: Buffer): number {
  return crc32(record.subarray(writtenAt), record.readUInt8(magic.length))
}
