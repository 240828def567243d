import { crc32 } from 'node:zlib'
import { ByteReader, ByteWriter } from './byte-codec.js'
import { type NumberedInterval } from './disk-index.js'
import { type StoreSpace } from './tier.js'

/** Interval of an entry in its family, without the name of the space. */
export interface FamilyInterval extends NumberedInterval {
  readonly family: string
}

/** Record of an entry; its sequence is the number of purges before its fetch, and copies keep it. */
export interface EntryRecord {
  readonly digest: Buffer
  readonly sequence: number
  readonly writtenAtMs: number
  /** Infinity for history. */
  readonly expiresAtMs: number
  readonly interval: FamilyInterval | undefined
  readonly value: Buffer
}

/** Record of a purge: no record with a lower sequence that it covers is served, copied or indexed. */
export interface PurgeRecord {
  readonly sequence: number
  readonly isOfAll: boolean
  readonly digests: readonly Buffer[]
  readonly intervals: readonly Omit<FamilyInterval, 'number'>[]
}

/** Entry as purges and indexes know it. */
export type EntryIdentity = Pick<EntryRecord, 'digest' | 'sequence' | 'interval'>

/** Entry of a segment as its footer lists it. */
export interface SegmentItem extends EntryIdentity {
  readonly offset: number
  readonly length: number
}

const form = 1
const segmentMagic = Buffer.from([0x56, 0x52, 0x4c, form])
const footerMagic = Buffer.from([0x56, 0x52, 0x46, form])
/** Bytes of a digest in a record; a footer and the index have fewer. */
export const digestBytes = 16
const listedDigestBytes = 12
const itemBytes = listedDigestBytes + 12
/** Length and checksum in front of each record. */
export const frameBytes = 8
/** Magic, length and checksum behind the footer. */
export const trailerBytes = 12
const kinds = { entry: 1, purge: 2 } as const
const never = 2n ** 64n - 1n
const noSequence = 2 ** 32 - 1

/** Encodes the beginning of a segment. */
export function encodeHeader ({ chainId, name }: StoreSpace): Buffer {
  const writer = new ByteWriter()
  writer.bytes(segmentMagic)
  writer.u8(chainId)
  writer.text(name)
  const header = writer.toBuffer()
  return Buffer.concat([header, checksumOf(header)])
}

/** Decodes the beginning of a segment; undefined for damage, and for another form. */
export function decodeHeader (bytes: Buffer): { readonly space: StoreSpace, readonly length: number } | undefined {
  return attempt(() => {
    const reader = new ByteReader(bytes)
    if (!reader.bytes(segmentMagic.length).equals(segmentMagic)) return undefined
    const space = { chainId: reader.u8(), name: reader.text() }
    const header = encodeHeader(space)
    return bytes.subarray(0, header.length).equals(header) ? { space, length: header.length } : undefined
  })
}

/** Returns true for the beginning of a segment that another release wrote, which is no damage. */
export function isOfOtherForm (bytes: Buffer): boolean {
  return bytes.subarray(0, 3).equals(segmentMagic.subarray(0, 3)) && bytes[3] !== form
}

/** Frames an entry as a record. */
export function encodeEntryRecord (record: EntryRecord): Buffer {
  const { digest, sequence, writtenAtMs, expiresAtMs, interval, value } = record
  const writer = new ByteWriter()
  writer.u8(kinds.entry)
  writer.u32(sequence)
  writer.bytes(digest)
  writer.u64(BigInt(Math.round(writtenAtMs)))
  writer.u64(expiresAtMs === Infinity ? never : BigInt(Math.round(expiresAtMs)))
  writer.u8(interval === undefined ? 0 : 1)
  if (interval !== undefined) writeInterval(writer, interval)
  writer.bytes(value)
  return framed(writer.toBuffer())
}

/** Frames a purge as a record. */
export function encodePurgeRecord ({ sequence, isOfAll, digests, intervals }: PurgeRecord): Buffer {
  const writer = new ByteWriter()
  writer.u8(kinds.purge)
  writer.u32(sequence)
  writer.u8(isOfAll ? 1 : 0)
  writer.u32(digests.length)
  for (const digest of digests) writer.bytes(digest)
  writer.u32(intervals.length)
  for (const interval of intervals) writeInterval(writer, { ...interval, number: 0n })
  return framed(writer.toBuffer())
}

/** Record of the log. */
export type DiskRecord = { readonly entry: EntryRecord } | { readonly purge: PurgeRecord }

/** Decodes the record at the beginning of some bytes; undefined for damage. */
export function decodeRecord (bytes: Buffer): DiskRecord | undefined {
  return attempt(() => {
    const frame = new ByteReader(bytes)
    const [length, checksum] = [frame.u32(), frame.u32()]
    const content = frame.bytes(length)
    // A hole in a file is a record of no length with a right checksum.
    if (length === 0 || crc32(content) !== checksum) return undefined
    const reader = new ByteReader(content)
    return reader.u8() === kinds.entry ? { entry: readEntry(reader) } : { purge: readPurge(reader) }
  })
}

/** Entries and purges of a segment: what its footer says, or what was found in it. */
export class SegmentList {
  readonly purges: PurgeRecord[] = []
  #items: Buffer = Buffer.alloc(0)
  #count = 0
  readonly #intervals = new Map<number, FamilyInterval>()

  /** Lowest sequence of an entry; a purge is obsolete once no segment has a lower one than its own. */
  minSequence = Infinity

  get size (): number {
    return this.#count
  }

  add ({ digest, sequence, offset, length, interval }: SegmentItem): void {
    const at = this.#count * itemBytes
    if (at === this.#items.length) this.#items = Buffer.concat([this.#items, Buffer.alloc(at + 64 * itemBytes)])
    digest.copy(this.#items, at, 0, listedDigestBytes)
    for (const [nth, value] of [sequence, offset, length].entries()) {
      this.#items.writeUInt32BE(value, at + listedDigestBytes + 4 * nth)
    }
    if (interval !== undefined) this.#intervals.set(this.#count, interval)
    this.minSequence = Math.min(this.minSequence, sequence)
    this.#count++
  }

  item (nth: number): SegmentItem {
    const at = nth * itemBytes
    const items = this.#items
    return {
      digest: items.subarray(at, at + listedDigestBytes),
      sequence: items.readUInt32BE(at + listedDigestBytes),
      offset: items.readUInt32BE(at + listedDigestBytes + 4),
      length: items.readUInt32BE(at + listedDigestBytes + 8),
      interval: this.#intervals.get(nth)
    }
  }

  /** Keeps only what is still needed once no record can follow. */
  dropItems (): void {
    this.#items = Buffer.alloc(0)
    this.#intervals.clear()
    this.#count = 0
  }

  /** Returns the footer and the trailer by which it is found. */
  encode (): Buffer {
    const writer = new ByteWriter()
    writer.u32(Number.isFinite(this.minSequence) ? this.minSequence : noSequence)
    writer.u32(this.#count)
    writer.bytes(this.#items.subarray(0, this.#count * itemBytes))
    writer.u32(this.#intervals.size)
    for (const [nth, interval] of this.#intervals) {
      writer.u32(nth)
      writeInterval(writer, interval)
    }
    writer.bytes(Buffer.concat(this.purges.map(encodePurgeRecord)))
    const footer = writer.toBuffer()
    const trailer = new ByteWriter()
    trailer.bytes(footerMagic)
    trailer.u32(footer.length)
    trailer.bytes(checksumOf(footer))
    return Buffer.concat([footer, trailer.toBuffer()])
  }

  /** Returns the length of the footer in front of a trailer; undefined if it is none. */
  static footerLengthOf (trailer: Buffer): number | undefined {
    return trailer.length === trailerBytes && trailer.subarray(0, footerMagic.length).equals(footerMagic)
      ? trailer.readUInt32BE(footerMagic.length)
      : undefined
  }

  /** Decodes a footer; undefined for damage. */
  static decode (footer: Buffer, trailer: Buffer): SegmentList | undefined {
    return attempt(() => {
      if (!checksumOf(footer).equals(trailer.subarray(-4))) return undefined
      const reader = new ByteReader(footer)
      const list = new SegmentList()
      const minSequence = reader.u32()
      if (minSequence !== noSequence) list.minSequence = minSequence
      list.#count = reader.u32()
      list.#items = reader.bytes(list.#count * itemBytes)
      for (let left = reader.u32(); left > 0; left--) list.#intervals.set(reader.u32(), readInterval(reader))
      for (let rest = reader.rest(); rest.length > 0; rest = rest.subarray(frameBytes + rest.readUInt32BE())) {
        const record = decodeRecord(rest)
        if (record === undefined || !('purge' in record)) return undefined
        list.purges.push(record.purge)
      }
      return list
    })
  }
}

function framed (content: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([length, checksumOf(content), content])
}

function checksumOf (bytes: Buffer): Buffer {
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32BE(crc32(bytes))
  return checksum
}

function readEntry (reader: ByteReader): EntryRecord {
  const [sequence, digest, writtenAt, expiresAt] = [reader.u32(), reader.bytes(digestBytes), reader.u64(), reader.u64()]
  const interval = reader.u8() === 0 ? undefined : readInterval(reader)
  const expiresAtMs = expiresAt === never ? Infinity : Number(expiresAt)
  return { digest, sequence, writtenAtMs: Number(writtenAt), expiresAtMs, interval, value: reader.rest() }
}

function readPurge (reader: ByteReader): PurgeRecord {
  const [sequence, isOfAll] = [reader.u32(), reader.u8() !== 0]
  // Copies, because a part of a buffer pins all of it.
  const digests = Array.from({ length: reader.u32() }, () => Buffer.from(reader.bytes(digestBytes)))
  return { sequence, isOfAll, digests, intervals: Array.from({ length: reader.u32() }, () => readInterval(reader)) }
}

function writeInterval (writer: ByteWriter, { family, first, last, number }: FamilyInterval): void {
  writer.text(family)
  for (const value of [first, last, number]) writer.u64(value)
}

function readInterval (reader: ByteReader): FamilyInterval {
  return { family: reader.text(), first: reader.u64(), last: reader.u64(), number: reader.u64() }
}

/** Returns undefined where bytes end too early. */
function attempt<T> (run: () => T | undefined): T | undefined {
  try {
    return run()
  } catch {
    return undefined
  }
}
