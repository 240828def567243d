import { readLength } from './bcs.js'

/** Bytes that are not what they should be. */
export class Unreadable extends Error {}

/** Reads values one after the other, and throws where the bytes do not go on as they should. */
export class BcsReader {
  readonly #bytes: Buffer
  #at = 0

  constructor (bytes: Buffer) {
    this.#bytes = bytes
  }

  /** So many bytes as they are. */
  take (count: number): Buffer {
    const taken = this.#bytes.subarray(this.#at, this.#at + count)
    if (taken.length < count) throw new Unreadable('unexpected end of input')
    this.#at += count
    return taken
  }

  /** One byte as a number. */
  byte (): number {
    return this.take(1).readUInt8()
  }

  /** A length as ULEB128. */
  length (): number {
    const length = readLength(this.#bytes, this.#at)
    if (length === undefined) throw new Unreadable('malformed length')
    this.#at = length.next
    return length.value
  }

  /** Bytes with their length before them. */
  sized (): Buffer {
    return this.take(this.length())
  }

  /** Items with their number before them. */
  items<Item> (read: () => Item): Item[] {
    const items: Item[] = []
    for (let left = this.length(); left > 0; left--) items.push(read())
    return items
  }

  /** Nothing may be left. */
  end (): void {
    if (this.#at < this.#bytes.length) throw new Unreadable('remaining input')
  }
}
