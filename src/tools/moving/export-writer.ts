import { createHash } from 'node:crypto'
import { ByteWriter } from '../../cache/bytes.js'
import { seal } from '../../cluster/seal.js'
import { type Purge } from '../../chain/words.js'
import { endless, type ExportHead, fileFormat, type Moved, partMarks, signature } from './words.js'

/**
 * Writes an export: a head, entries one after another, and an end without which it is not whole. docs/moving-a-cache.md
 * has the form.
 */
export class ExportWriter {
  readonly #write: (bytes: Buffer) => Promise<void>
  readonly #hash = createHash('sha256')
  #entries = 0n
  #bytes = 0

  constructor (write: (bytes: Buffer) => Promise<void>) {
    this.#write = write
  }

  /** How long it is so far. */
  get bytes (): number {
    return this.#bytes
  }

  async begin (head: ExportHead): Promise<void> {
    const writer = new ByteWriter()
    writer.bytes(signature)
    writer.u8(fileFormat)
    addText(writer, seal(head))
    await this.#put(writer.whole())
  }

  async add ({ key, ttlMs, value }: Moved): Promise<void> {
    const writer = new ByteWriter()
    writer.u8(partMarks.entry)
    writer.text(key)
    writer.u64(ttlMs === undefined ? endless : BigInt(ttlMs))
    writer.u32(value.length)
    writer.bytes(value)
    this.#entries++
    await this.#put(writer.whole())
  }

  /** Says that something was purged while this was being written. */
  async addPurge (purge: Purge): Promise<void> {
    const writer = new ByteWriter()
    writer.u8(partMarks.purge)
    addText(writer, seal(purge))
    await this.#put(writer.whole())
  }

  async end (): Promise<void> {
    const writer = new ByteWriter()
    writer.u8(partMarks.end)
    writer.u64(this.#entries)
    await this.#put(writer.whole())
    await this.#put(this.#hash.digest(), false)
  }

  async #put (bytes: Buffer, isHashed = true): Promise<void> {
    if (isHashed) this.#hash.update(bytes)
    this.#bytes += bytes.length
    await this.#write(bytes)
  }
}

function addText (writer: ByteWriter, text: string): void {
  const bytes = Buffer.from(text)
  writer.u32(bytes.length)
  writer.bytes(bytes)
}
