import { ByteReader, ByteWriter } from './byte-codec.js'
import {
  attempt,
  checksumOf,
  digestBytes,
  type EntryIdentity,
  type FamilyInterval,
  listedDigestBytes,
  readInterval,
  writeInterval
} from './disk-segment.js'

/** Entries that a purge covers. */
export interface PurgedEntries {
  readonly isOfAll: boolean
  readonly digests: readonly Buffer[]
  readonly intervals: readonly Omit<FamilyInterval, 'number'>[]
}

/** Numbered purge: no entry with a lower sequence that it covers is served, copied or indexed. */
export interface Purge extends PurgedEntries {
  readonly sequence: number
}

/** Beyond this many purges everything older counts as purged (law 10: nothing grows without bound). */
export const maxPurges = 1000
const magic = Buffer.from([0x56, 0x52, 0x50, 1])

/**
 * Purges of the disk tier, numbered in order. An entry carries the number of the last purge before its fetch, so a
 * purge covers every copy of it.
 */
export class DiskPurges {
  // Purges by what they cover: the last purge of the same entries stands for all before it.
  readonly #purges = new Map<string, Purge>()
  // Highest sequence of a purge, by the digest that it names.
  readonly #digests = new Map<string, number>()
  #intervals: ReadonlyArray<Purge['intervals'][number] & { readonly sequence: number }> = []
  // Times when this process applied the last purges, oldest first.
  readonly #applied: Array<{ readonly sequence: number, readonly atMs: number }> = []
  #last = 0
  // Everything with a lower sequence counts as purged.
  #floor = 0
  /** Name of the log: the segments of another log have numbers of other purges. */
  readonly log: number

  constructor (log: number) {
    this.log = log
  }

  /** Number of the last purge. */
  get sequence (): number {
    return this.#last
  }

  /** True if the next purge must be of everything, because there are too many. */
  get isFull (): boolean {
    return this.#purges.size >= maxPurges
  }

  /** Returns the number of the last purge before a time in this process. */
  sequenceAt (ms: number): number {
    const [oldest] = this.#applied
    if (this.#applied.length === maxPurges && oldest !== undefined && ms <= oldest.atMs) return 0
    const next = this.#applied.find(({ atMs }) => atMs >= ms)
    return next === undefined ? this.#last : next.sequence - 1
  }

  /** Skips numbers of purges, which entries may carry already. */
  skip (count: number): void {
    this.#last += count
  }

  add (purge: Purge, atMs = -Infinity): void {
    const { sequence, isOfAll, digests, intervals } = purge
    this.#last = Math.max(this.#last, sequence)
    this.#applied.push({ sequence, atMs })
    if (this.#applied.length > maxPurges) this.#applied.shift()
    if (isOfAll) {
      this.#floor = Math.max(this.#floor, sequence)
      return this.forgetUpTo(sequence)
    }
    const content = contentOf(purge)
    const other = this.#purges.get(content)
    this.#purges.delete(content)
    this.#purges.set(content, purge)
    for (const digest of digests) this.#digests.set(textOf(digest), sequence)
    if (other !== undefined) this.#intervals = this.#intervals.filter(each => each.sequence !== other.sequence)
    this.#intervals = [...this.#intervals, ...intervals.map(interval => ({ ...interval, sequence }))]
  }

  /** Returns true if a purge covers an entry. */
  covers ({ digest, sequence, interval }: EntryIdentity): boolean {
    if (sequence >= this.#last) return false
    const lastOf = (text: string): number => this.#digests.get(text) ?? 0
    if (sequence < this.#floor || sequence < Math.max(lastOf(textOf(digest)), lastOf(accountIn(digest)))) return true
    return interval !== undefined &&
      this.#intervals.some(purged => sequence < purged.sequence && isOverlapping(purged, interval))
  }

  /** Forgets purges up to a number, because no entry is left from before them. */
  forgetUpTo (minSequence: number): void {
    const isObsolete = (sequence: number): boolean => sequence <= minSequence
    for (const [content, { sequence }] of this.#purges) {
      if (!isObsolete(sequence)) continue
      this.#purges.delete(content)
      this.#floor = Math.max(this.#floor, sequence)
    }
    for (const [text, sequence] of this.#digests) if (isObsolete(sequence)) this.#digests.delete(text)
    this.#intervals = this.#intervals.filter(({ sequence }) => !isObsolete(sequence))
  }

  /** Encodes everything but the times. */
  encode (): Buffer {
    const writer = new ByteWriter()
    writer.bytes(magic)
    for (const value of [this.log, this.#last, this.#floor, this.#purges.size]) writer.u32(value)
    for (const purge of this.#purges.values()) writePurge(writer, purge)
    const content = writer.toBuffer()
    return Buffer.concat([content, checksumOf(content)])
  }

  /** Decodes what `encode` has returned; undefined for anything else (law 13: what was stored elsewhere is checked). */
  static decode (bytes: Buffer): DiskPurges | undefined {
    return attempt(() => {
      const content = bytes.subarray(0, -4)
      if (!checksumOf(content).equals(bytes.subarray(-4))) return undefined
      const reader = new ByteReader(content)
      if (!reader.bytes(magic.length).equals(magic)) return undefined
      const [log, last, floor, count] = [reader.u32(), reader.u32(), reader.u32(), reader.u32()]
      const purges = new DiskPurges(log)
      for (let left = count; left > 0; left--) purges.add(readPurge(reader))
      purges.#last = last
      purges.#floor = floor
      return purges
    })
  }
}

/** Names what a purge covers: equal texts for equal entries. */
export function contentOf (purge: PurgedEntries): string {
  return encodePurge({ ...purge, sequence: 0 }).toString('latin1')
}

/** Returns true if a purge names an entry, whatever their numbers. */
export function isNamedBy (
  { isOfAll, digests, intervals }: PurgedEntries,
  { digest, interval }: EntryIdentity
): boolean {
  // Compares a part of each digest, because a footer lists only that part.
  return isOfAll ||
    digests.some(named => named.subarray(0, digest.length).equals(digest) || textOf(named) === accountIn(digest)) ||
    (interval !== undefined && intervals.some(purged => isOverlapping(purged, interval)))
}

function isOverlapping (
  one: Omit<FamilyInterval, 'number'>,
  other: Omit<FamilyInterval, 'number'>
): boolean {
  return one.family === other.family && one.first <= other.last && other.first <= one.last
}

/** Encodes a purge for another process. */
export function encodePurge (purge: Purge): Buffer {
  const writer = new ByteWriter()
  writePurge(writer, purge)
  return writer.toBuffer()
}

/** Decodes what `encodePurge` has returned. */
export function decodePurge (bytes: Uint8Array): Purge {
  return readPurge(new ByteReader(Buffer.from(bytes)))
}

function writePurge (writer: ByteWriter, { sequence, isOfAll, digests, intervals }: Purge): void {
  writer.u32(sequence)
  writer.u8(isOfAll ? 1 : 0)
  writer.u32(digests.length)
  for (const digest of digests) writer.bytes(digest)
  writer.u32(intervals.length)
  for (const interval of intervals) writeInterval(writer, { ...interval, number: 0n })
}

function readPurge (reader: ByteReader): Purge {
  const [sequence, isOfAll] = [reader.u32(), reader.u8() !== 0]
  // Copies, because a part of a buffer pins all of it.
  const digests = Array.from({ length: reader.u32() }, () => Buffer.from(reader.bytes(digestBytes)))
  return { sequence, isOfAll, digests, intervals: Array.from({ length: reader.u32() }, () => readInterval(reader)) }
}

function textOf (digest: Buffer): string {
  return digest.toString('latin1', 0, listedDigestBytes)
}

/** Returns the text by which a purge of the account in a digest is found; '' for a shorter digest of a footer. */
function accountIn (digest: Buffer): string {
  return digest.toString('latin1', listedDigestBytes).repeat(3)
}
