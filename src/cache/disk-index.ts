import { hash } from 'node:crypto'
import { setImmediate as pause } from 'node:timers/promises'
import { accountIn, intervalKeyOf } from '../api/read.js'
import { type PurgedEntries } from './disk-purges.js'
import { type EntryIdentity, listedDigestBytes, type NumberedInterval } from './disk-segment.js'

/** Place of a record in the log. */
export interface RecordPlace {
  readonly segment: number
  readonly offset: number
  readonly length: number
  /** True after a hit, so that eviction copies the entry forward. */
  readonly isHit?: boolean
}

// A slot has two words of the digest, then segment, offset, and a length that is negative after a hit.
const slotWords = 5
// Growth by these shares bounds the index to 33 bytes for an entry, and 30 more for its interval.
const mostFilled = 0.85
const slotsPerEntry = 1.65
const intervalGrowth = 1.25
const minSlots = 8
const intervalWords = 3
const maxIntervals = 2048

/**
 * Index of the entries of one space in typed arrays, so that an entry takes at most 64 bytes. A table copies its
 * entries when it grows, so the index has 256 small tables, and no copy delays a hit.
 */
export class DiskIndex {
  readonly #hasSegment: (segment: number) => boolean
  readonly #tables: DigestTable[] = []
  readonly #families = new Map<string, IntervalList>()

  /** `hasSegment` returns false for a segment that is gone; other entries may take the slots of its entries. */
  constructor (hasSegment: (segment: number) => boolean) {
    this.#hasSegment = hasSegment
  }

  /** Number of indexed entries. */
  get size (): number {
    return this.#tables.reduce((sum, { size }) => sum + size, 0)
  }

  /** Memory of the index. */
  get bytes (): number {
    return this.#tables.reduce((sum, { bytes }) => sum + bytes, 0) +
      [...this.#families.values()].reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get (digest: Buffer): RecordPlace | undefined {
    return this.#tableOf(digest).get(digest)
  }

  set (digest: Buffer, { segment, offset, length, isHit = false }: RecordPlace): void {
    this.#tableOf(digest).set(digest, segment, offset, isHit ? -length : length)
  }

  /** Removes an entry, and returns true if it was there. */
  delete (digest: Buffer): boolean {
    return this.#tableOf(digest).delete(digest)
  }

  /** Finds the interval that contains a version. */
  covering (family: string, version: bigint): NumberedInterval | undefined {
    return this.#families.get(family)?.overlapping(version, version)[0]
  }

  /** Lists the intervals that overlap an interval. */
  overlapping (family: string, first: bigint, last: bigint): NumberedInterval[] {
    return this.#families.get(family)?.overlapping(first, last) ?? []
  }

  addInterval (family: string, interval: NumberedInterval): void {
    const list = this.#families.get(family) ?? new IntervalList()
    list.add(interval)
    this.#families.set(family, list)
  }

  deleteInterval (family: string, interval: NumberedInterval): void {
    this.#families.get(family)?.delete(interval)
  }

  /** Removes the entries of a segment that has no list, and intervals without an entry. */
  async prune (segment: number): Promise<void> {
    // `forEach` skips tables that are not made yet.
    this.#tables.forEach(table => table.deleteAll(segment))
    for (const [family, list] of this.#families) {
      await list.prune(({ number }) => this.get(digestOfText(intervalKeyOf(family, number))) !== undefined)
    }
  }

  #tableOf (digest: Buffer): DigestTable {
    const nth = digest[0] as number
    this.#tables[nth] ??= new DigestTable(this.#hasSegment)
    return this.#tables[nth]
  }
}

/**
 * Indexes an entry. If the intervals of two entries share a version, the older entry is removed, because nothing proves
 * which is right.
 */
export function addEntry (index: DiskIndex, { digest, interval }: EntryIdentity, place: RecordPlace): void {
  if (interval !== undefined) {
    const { family, first, last, number } = interval
    for (const other of index.overlapping(family, first, last)) {
      index.deleteInterval(family, other)
      if (other.number !== number) index.delete(digestOfText(intervalKeyOf(family, other.number)))
    }
    index.addInterval(family, interval)
  }
  index.set(digest, place)
}

/** Removes what a purge covers from an index; returns true if the index had any such entry. */
export function removePurged (index: DiskIndex, { isOfAll, digests, intervals }: PurgedEntries): boolean {
  if (isOfAll) return index.size > 0
  const removed = digests.map(digest => index.delete(digest))
  for (const { family, first, last } of intervals) {
    for (const interval of index.overlapping(family, first, last)) {
      index.deleteInterval(family, interval)
      removed.push(index.delete(digestOfText(intervalKeyOf(family, interval.number))))
    }
  }
  return removed.includes(true)
}

/** Returns the digest that names a key in the log: its last bytes say which account the entry depends on. */
export function digestOfText (text: string): Buffer {
  return Buffer.concat([hash('sha256', text, 'buffer').subarray(0, listedDigestBytes), accountBytes(accountIn(text))])
}

/**
 * Returns digests that name all entries which may depend on an account: its own, and entries that may depend on any
 * account.
 */
export function digestsOfAccount (account: string): Buffer[] {
  return [account, ''].map(each => Buffer.concat([1, 2, 3, 4].map(() => accountBytes(each))))
}

// Two accounts may share these bytes; then a purge of one account also removes entries of the other.
function accountBytes (account: string | undefined): Buffer {
  return Buffer.from(account === undefined ? 'fffffffe' : account.slice(-8) || 'ffffffff', 'hex')
}

/** Hash table with open addressing; a deleted slot keeps its length, and has segment 0. */
class DigestTable {
  readonly #hasSegment: (segment: number) => boolean
  // Uses signed words, because V8 boxes unsigned numbers that need 32 bits.
  #words = new Int32Array(minSlots * slotWords)
  #slots = minSlots
  #used = 0
  size = 0

  constructor (hasSegment: (segment: number) => boolean) {
    this.#hasSegment = hasSegment
  }

  get bytes (): number {
    return this.#words.byteLength
  }

  get (digest: Buffer): RecordPlace | undefined {
    const at = this.#find(digest.readInt32LE(4), digest.readInt32LE(8))
    const segment = this.#word(at + 2)
    if (segment === 0) return undefined
    const length = this.#word(at + 4)
    return { segment, offset: this.#word(at + 3), length: Math.abs(length), isHit: length < 0 }
  }

  set (digest: Buffer, segment: number, offset: number, length: number): void {
    const [high, low] = [digest.readInt32LE(4), digest.readInt32LE(8)]
    let at = this.#find(high, low)
    if (this.#word(at + 4) === 0) {
      if (this.#used + 1 > this.#slots * mostFilled) {
        this.#rebuild()
        at = this.#find(high, low)
      }
      this.#used++
    }
    if (this.#word(at + 2) === 0) this.size++
    this.#fill(at, high, low, segment, offset, length)
  }

  delete (digest: Buffer): boolean {
    const at = this.#find(digest.readInt32LE(4), digest.readInt32LE(8))
    if (this.#word(at + 2) === 0) return false
    this.#words[at + 2] = 0
    this.size--
    return true
  }

  /** Removes the entries of a segment. */
  deleteAll (segment: number): void {
    const words = this.#words
    for (let at = 0; at < words.length; at += slotWords) {
      if (words[at + 2] !== segment) continue
      words[at + 2] = 0
      this.size--
    }
  }

  // Finds the slot of a digest, or the empty slot for it.
  #find (high: number, low: number): number {
    const words = this.#words
    // Orders slots by digest, so that a table that grows is written from front to back.
    let at = Math.floor((low >>> 0) / 2 ** 32 * this.#slots) * slotWords
    while (words[at + 4] !== 0 && (words[at] !== high || words[at + 1] !== low)) {
      at += slotWords
      if (at === words.length) at = 0
    }
    return at
  }

  #word (at: number): number {
    return this.#words[at] as number
  }

  // Sets words one by one, without an array for them, because a start sets millions of slots.
  #fill (at: number, high: number, low: number, segment: number, offset: number, length: number): void {
    const words = this.#words
    words[at] = high
    words[at + 1] = low
    words[at + 2] = segment
    words[at + 3] = offset
    words[at + 4] = length
  }

  #rebuild (): void {
    const old = this.#words
    this.#slots = Math.max(minSlots, Math.ceil((this.size + 1) * slotsPerEntry))
    this.#words = new Int32Array(this.#slots * slotWords)
    this.#used = this.size = 0
    for (let at = 0; at < old.length; at += slotWords) {
      const segment = old[at + 2] as number
      if (segment === 0 || !this.#hasSegment(segment)) continue
      const [high, low] = [old[at] as number, old[at + 1] as number]
      this.#fill(this.#find(high, low), high, low, segment, old[at + 3] as number, old[at + 4] as number)
      this.#used++
      this.size++
    }
  }
}

/** Sorted intervals as numbers; the owner deletes one of two that overlap. */
interface IntervalChunk {
  words: BigUint64Array
  count: number
}

/** Sorted intervals of a family, in chunks, so that an insertion moves few of them. */
class IntervalList {
  readonly #chunks: IntervalChunk[] = [{ words: new BigUint64Array(intervalWords), count: 0 }]

  get bytes (): number {
    return this.#chunks.reduce((sum, { words }) => sum + words.byteLength, 0)
  }

  overlapping (first: bigint, last: bigint): NumberedInterval[] {
    const found: NumberedInterval[] = []
    let nth = this.#chunkOf(first)
    // Begins with the interval before, because it may overlap the new one.
    let at = Math.max(0, positionIn(this.#chunk(nth), first + 1n) - 1)
    for (; nth < this.#chunks.length; nth++, at = 0) {
      const chunk = this.#chunk(nth)
      for (; at < chunk.count; at++) {
        const interval = intervalAt(chunk, at)
        if (interval.first > last) return found
        if (interval.last >= first) found.push(interval)
      }
    }
    return found
  }

  add ({ first, last, number }: NumberedInterval): void {
    const nth = this.#chunkOf(first)
    const chunk = this.#chunk(nth)
    const at = positionIn(chunk, first)
    if (chunk.count * intervalWords === chunk.words.length) {
      const grown = new BigUint64Array(Math.ceil((chunk.count + 1) * intervalGrowth) * intervalWords)
      grown.set(chunk.words)
      chunk.words = grown
    }
    chunk.words.copyWithin((at + 1) * intervalWords, at * intervalWords, chunk.count * intervalWords)
    chunk.words.set([first, last, number], at * intervalWords)
    chunk.count++
    if (chunk.count < maxIntervals) return
    // Splits at the end if history is read in order, so that chunks fill up instead of staying half empty.
    const left = nth === this.#chunks.length - 1 && at === chunk.count - 1 ? at : chunk.count / 2
    const words = chunk.words.slice(left * intervalWords, chunk.count * intervalWords)
    this.#chunks.splice(nth + 1, 0, { words, count: chunk.count - left })
    chunk.words = chunk.words.slice(0, left * intervalWords)
    chunk.count = left
  }

  delete ({ first, number }: NumberedInterval): void {
    const chunk = this.#chunk(this.#chunkOf(first))
    const at = positionIn(chunk, first)
    if (at === chunk.count || intervalAt(chunk, at).first !== first || intervalAt(chunk, at).number !== number) return
    chunk.words.copyWithin(at * intervalWords, (at + 1) * intervalWords, chunk.count * intervalWords)
    chunk.count--
    if (chunk.count === 0 && this.#chunks.length > 1) this.#chunks.splice(this.#chunks.indexOf(chunk), 1)
  }

  /** Deletes intervals that are not wanted, with pauses for requests. */
  async prune (isWanted: (interval: NumberedInterval) => boolean): Promise<void> {
    for (const chunk of [...this.#chunks]) {
      await pause()
      const intervals = Array.from({ length: chunk.count }, (_, at) => intervalAt(chunk, at))
      for (const interval of intervals) if (!isWanted(interval)) this.delete(interval)
    }
  }

  #chunk (nth: number): IntervalChunk {
    return this.#chunks[nth] as IntervalChunk
  }

  // Finds the last chunk that begins at or before a number, or the first one.
  #chunkOf (first: bigint): number {
    let [low, high] = [1, this.#chunks.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#chunk(middle).words[0] as bigint) <= first) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}

/** Finds the first interval of a chunk that begins at or after a number. */
function positionIn ({ words, count }: IntervalChunk, first: bigint): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((words[middle * intervalWords] as bigint) < first) low = middle + 1
    else high = middle
  }
  return low
}

function intervalAt ({ words }: IntervalChunk, at: number): NumberedInterval {
  const [first = 0n, last = 0n, number = 0n] = words.subarray(at * intervalWords, (at + 1) * intervalWords)
  return { first, last, number }
}
