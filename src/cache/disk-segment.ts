import { crc32 } from 'node:zlib'
import { ByteReader, ByteWriter } from './byte-codec.js'
import { type StoreSpace } from './tier.js'

/** Interval of an entry, with the number at the end of its key. */
export interface NumberedInterval {
  readonly first: bigint
  readonly last: bigint
  readonly number: bigint
}

/** Interval of an entry in its family, without the name of the space. */
export interface FamilyInterval extends NumberedInterval {
  readonly family: string
}

/** Record of an entry. Its sequence is the number of purges before its fetch; copies keep the sequence. */
export interface EntryRecord {
  readonly digest: Buffer
  readonly sequence: number
  readonly writtenAtMs: number
  /** Infinity for history. */
  readonly expiresAtMs: number
  readonly interval: FamilyInterval | undefined
  readonly value: Buffer
}

/** Entry as purges and indexes know it. */
export type EntryIdentity = Pick<EntryRecord, 'digest' | 'sequence' | 'interval'>

/** Entry of a segment as its footer lists it. */
export interface SegmentItem extends EntryIdentity {
  readonly offset: number
  readonly length: number
}

// Form 1 had purges among the records, form 2 no accounts in digests.
const form = 3
const segmentMagic = Buffer.from([0x56, 0x52, 0x4c, form])
const footerMagic = Buffer.from([0x56, 0x52, 0x46, form])
/** Bytes of a digest in a record; a footer and the index have fewer. */
export const digestBytes = 16
/** Bytes of a key's own digest, without the account behind it. */
export const listedDigestBytes = 12
const itemBytes = listedDigestBytes + 12
/** Most bytes of a header. */
export const headerBytes = 256
/** Length and checksum in front of each record. */
export const frameBytes = 8
/** Magic, length and checksum behind the footer. */
export const trailerBytes = 12
const never = 2n ** 64n - 1n
// No purge has a higher number.
const noSequence = 2 ** 32 - 1

/** Beginning of a segment. */
export interface SegmentHeader {
  /** Name of the log, whose purges have numbers of their own. */
  readonly log: number
  readonly space: StoreSpace
  readonly length: number
}

/** Encodes the beginning of a segment of one log. */
export function encodeHeader ({ chainId, name }: StoreSpace, log: number): Buffer {
  const writer = new ByteWriter()
  writer.bytes(segmentMagic)
  writer.u32(log)
  writer.u8(chainId)
  writer.text(name)
  const header = writer.toBuffer()
  return Buffer.concat([header, checksumOf(header)])
}

/** Decodes the beginning of a segment; undefined for damage, and for another form. */
export function decodeHeader (bytes: Buffer): SegmentHeader | undefined {
  return attempt(() => {
    const reader = new ByteReader(bytes)
    if (!reader.bytes(segmentMagic.length).equals(segmentMagic)) return undefined
    const log = reader.u32()
    const space = { chainId: reader.u8(), name: reader.text() }
    const header = encodeHeader(space, log)
    return bytes.subarray(0, header.length).equals(header) ? { log, space, length: header.length } : undefined
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
  writer.u32(sequence)
  writer.bytes(digest)
  writer.u64(BigInt(Math.round(writtenAtMs)))
  writer.u64(expiresAtMs === Infinity ? never : BigInt(Math.round(expiresAtMs)))
  writer.u8(interval === undefined ? 0 : 1)
  if (interval !== undefined) writeInterval(writer, interval)
  writer.bytes(value)
  return framed(writer.toBuffer())
}

/** Decodes the record at the beginning of some bytes; undefined for damage. */
export function decodeRecord (bytes: Buffer): EntryRecord | undefined {
  return attempt(() => {
    const frame = new ByteReader(bytes)
    const [length, checksum] = [frame.u32(), frame.u32()]
    const content = frame.bytes(length)
    // Rejects the length 0: otherwise a hole of zeros in a file would pass as a record, because its checksum is right.
    if (length === 0 || crc32(content) !== checksum) return undefined
    return readEntry(new ByteReader(content))
  })
}

/** Returns the entry of a record if it is the wanted one (law 13: what was stored elsewhere is checked). */
export function entryIn (bytes: Buffer, digest?: Buffer): EntryRecord | undefined {
  const entry = decodeRecord(bytes)
  // Rejects bytes behind the record: in a copy they would hide the records that follow.
  const isWhole = entry !== undefined && bytes.length === frameBytes + bytes.readUInt32BE()
  return isWhole && (digest === undefined || entry.digest.equals(digest)) ? entry : undefined
}

/** Entries of a segment: what its footer says, or what was found in it. */
export class SegmentList {
  #items: Buffer = Buffer.alloc(0)
  #count = 0
  readonly #intervals = new Map<number, FamilyInterval>()

  /**
   * Lowest sequence of its entries. A purge is obsolete once no segment has an entry with a lower sequence than the
   * purge.
   */
  minSequence = noSequence

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

  /** Returns the footer, and the trailer by which the footer is found. */
  encode (): Buffer {
    const writer = new ByteWriter()
    writer.u32(this.minSequence)
    writer.u32(this.#count)
    writer.bytes(this.#items.subarray(0, this.#count * itemBytes))
    writer.u32(this.#intervals.size)
    for (const [nth, interval] of this.#intervals) {
      writer.u32(nth)
      writeInterval(writer, interval)
    }
    const footer = writer.toBuffer()
    const trailer = new ByteWriter()
    trailer.bytes(footerMagic)
    trailer.u32(footer.length)
    trailer.bytes(checksumOf(footer))
    return Buffer.concat([footer, trailer.toBuffer()])
  }

  /** Returns the length of the footer in front of a trailer; undefined if the bytes are no trailer. */
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
      list.minSequence = reader.u32()
      list.#count = reader.u32()
      list.#items = reader.bytes(list.#count * itemBytes)
      for (let left = reader.u32(); left > 0; left--) list.#intervals.set(reader.u32(), readInterval(reader))
      return list
    })
  }
}

function framed (content: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([length, checksumOf(content), content])
}

/** Returns the CRC-32 of some bytes. */
export function checksumOf (bytes: Buffer): Buffer {
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

/** Writes an interval. */
export function writeInterval (writer: ByteWriter, { family, first, last, number }: FamilyInterval): void {
  writer.text(family)
  for (const value of [first, last, number]) writer.u64(value)
}

/** Reads what `writeInterval` has written. */
export function readInterval (reader: ByteReader): FamilyInterval {
  return { family: reader.text(), first: reader.u64(), last: reader.u64(), number: reader.u64() }
}

/** Returns undefined if bytes end too early. */
export function attempt<T> (run: () => T | undefined): T | undefined {
  try {
    return run()
  } catch {
    return undefined
  }
}
