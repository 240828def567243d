import { crc32 } from 'node:zlib'
import { type EntryInterval } from '../api/read.js'
import { bytesOnDisk, type DiskFiles, indexPrefix } from './disk-files.js'

// Both limits bound one file: its width in versions, and its records (law 10: nothing grows without bound).
const versionsPerFile = 1024n
const maxRecords = 2048
// A longer block is not stored.
const maxFiles = 66n
const recordBytes = 28
const maxU64 = 2n ** 64n - 1n

/** Versions and height of a block. */
export interface DiskInterval {
  readonly first: bigint
  readonly last: bigint
  readonly height: bigint
}

/** Files and accounting that the index needs. */
export interface DiskIntervalIndexOptions {
  readonly files: DiskFiles
  readonly foundCorrupt: () => void
}

/**
 * Indexes blocks by version, in one appended file per 1,024 versions. A block that a file lacks is never served, so
 * that a purge finds every served block.
 */
export class DiskIntervalIndex {
  readonly #options: DiskIntervalIndexOptions

  constructor (options: DiskIntervalIndexOptions) {
    this.#options = options
  }

  /** Returns false for an interval with too many versions to index. */
  accepts (interval: Pick<DiskInterval, 'first' | 'last'>): boolean {
    return interval.last <= maxU64 && interval.last / versionsPerFile - interval.first / versionsPerFile < maxFiles
  }

  /** Finds the entries whose intervals overlap a range, newest first. */
  async find (space: string, range: EntryInterval): Promise<DiskInterval[]> {
    const found = await Promise.all(filesOf(range.family, range).map(async name => await this.#read(space, name)))
    return found.flat().filter(({ first, last }) => first <= range.last && last >= range.first).reverse()
  }

  /** Returns true if a purge of any version of the interval would find it. */
  async has (space: string, family: string, interval: DiskInterval): Promise<boolean> {
    const found = await Promise.all(filesOf(family, interval).map(async name => await this.#read(space, name)))
    return found.every(records => records.some(record => isSame(record, interval)))
  }

  /** Adds an interval, and returns the bytes that it needs on the disk. */
  async add (space: string, family: string, interval: DiskInterval): Promise<number> {
    const added = await Promise.all(filesOf(family, interval).map(async name => await this.#add(space, name, interval)))
    return added.reduce((sum, bytes) => sum + bytes, 0)
  }

  async #add (space: string, name: string, interval: DiskInterval): Promise<number> {
    const { files } = this.#options
    const bytes = await files.read(space, name)
    const records = this.#parse(name, bytes ?? Buffer.alloc(0))
    const at = records.findIndex(record => isSame(record, interval))
    if (
      at !== -1 && !records.slice(at + 1).some(other => other.first <= interval.last && other.last >= interval.first)
    ) {
      return 0
    }
    const isWhole = records.length * recordBytes === (bytes?.length ?? 0)
    if (isWhole && records.length < maxRecords) {
      const folders = await files.append(space, name, encode(name, interval))
      return folders + (bytes === undefined ? bytesOnDisk(recordBytes) : 0)
    }
    // Replaces a damaged or full file by its newest records.
    const rest = [...records.slice(-maxRecords / 2), interval].map(record => encode(name, record))
    return (await files.write(space, name, Buffer.concat(rest))).bytes
  }

  async #read (space: string, name: string): Promise<DiskInterval[]> {
    return this.#parse(name, await this.#options.files.read(space, name) ?? Buffer.alloc(0))
  }

  #parse (name: string, bytes: Buffer): DiskInterval[] {
    const records = Array.from(
      { length: Math.ceil(bytes.length / recordBytes) },
      (_, at) => decode(name, bytes.subarray(at * recordBytes, (at + 1) * recordBytes))
    )
    const intact = records.filter(record => record !== undefined)
    if (intact.length < records.length) this.#options.foundCorrupt()
    return intact
  }
}

function filesOf (family: string, { first, last }: Pick<DiskInterval, 'first' | 'last'>): string[] {
  const from = first / versionsPerFile
  const to = last / versionsPerFile
  return Array.from(
    { length: Number(to - from) + 1 },
    (_, at) => `${indexPrefix}versions ${family} ${from + BigInt(at)}`
  )
}

function isSame (one: DiskInterval, other: DiskInterval): boolean {
  return one.first === other.first && one.last === other.last && one.height === other.height
}

function encode (name: string, { first, last, height }: DiskInterval): Buffer {
  const record = Buffer.alloc(recordBytes)
  for (const [at, value] of [first, last, height].entries()) record.writeBigUInt64BE(value, at * 8)
  record.writeUInt32BE(crc32(record.subarray(0, -4), crc32(name)), recordBytes - 4)
  return record
}

function decode (name: string, record: Buffer): DiskInterval | undefined {
  if (
    record.length < recordBytes || crc32(record.subarray(0, -4), crc32(name)) !== record.readUInt32BE(recordBytes - 4)
  ) {
    return undefined
  }
  return { first: record.readBigUInt64BE(0), last: record.readBigUInt64BE(8), height: record.readBigUInt64BE(16) }
}
