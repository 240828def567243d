import { readLength } from './bcs.js'

/** Error for input that is not valid BCS. */
export class InvalidBcsError extends Error {}

/** Reads BCS values in sequence and throws on malformed or missing input. */
export class BcsReader {
  readonly #bytes: Buffer
  #offset = 0

  constructor (bytes: Buffer) {
    this.#bytes = bytes
  }

  /** Number of bytes that were read. */
  get offset (): number {
    return this.#offset
  }

  /** Reads `count` raw bytes. */
  readBytes (count: number): Buffer {
    const taken = this.#bytes.subarray(this.#offset, this.#offset + count)
    if (taken.length < count) throw new InvalidBcsError('unexpected end of input')
    this.#offset += count
    return taken
  }

  /** Reads one byte as a number. */
  readByte (): number {
    return this.readBytes(1).readUInt8()
  }

  /** Reads a length in ULEB128. */
  readLength (): number {
    const length = readLength(this.#bytes, this.#offset)
    if (length === undefined) throw new InvalidBcsError('malformed length')
    this.#offset = length.next
    return length.value
  }

  /** Reads bytes prefixed by their length. */
  readSizedBytes (): Buffer {
    return this.readBytes(this.readLength())
  }

  /** Reads items prefixed by their count. */
  readItems<Item> (read: () => Item): Item[] {
    const items: Item[] = []
    for (let left = this.readLength(); left > 0; left--) items.push(read())
    return items
  }

  /** Rejects trailing bytes after the last value. */
  requireEnd (): void {
    if (this.#offset < this.#bytes.length) throw new InvalidBcsError('remaining input')
  }
}
