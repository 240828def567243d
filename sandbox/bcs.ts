/** Encodes an unsigned or two's complement integer as little-endian bytes. */
export function integerBytes (value: bigint, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size)
  let rest = BigInt.asUintN(size * 8, value)
  for (let at = 0; at < size; at++) {
    bytes[at] = Number(rest & 0xffn)
    rest >>= 8n
  }
  return bytes
}

/** Encodes a u64 as eight little-endian bytes. */
export function u64Bytes (value: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64LE(BigInt.asUintN(64, value))
  return bytes
}

/** Encodes a length as ULEB128. */
export function lengthBytes (length: number): Buffer {
  const bytes: number[] = []
  let rest = length
  while (rest >= 0x80) {
    bytes.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  bytes.push(rest)
  return Buffer.from(bytes)
}

/** Copies bytes that are stored for long, since a small Buffer keeps the 8 KiB that Node took it from. */
export function ownBytes (bytes: Buffer): Buffer {
  return Buffer.alloc(bytes.length, bytes)
}

/** Prefixes bytes with their length. */
export function sizedBytes (bytes: Buffer): Buffer {
  return Buffer.concat([lengthBytes(bytes.length), bytes])
}

/** Encodes text as UTF-8, prefixed by its length in bytes. */
export function textBytes (text: string): Buffer {
  return sizedBytes(Buffer.from(text))
}

/** Joins encoded items, prefixed by their count. */
export function sequenceBytes (items: readonly Buffer[]): Buffer {
  return Buffer.concat([lengthBytes(items.length), ...items])
}

/** Encodes an option. */
export function optionBytes (content: Buffer | undefined): Buffer {
  return content === undefined ? Buffer.from([0]) : variant(1, content)
}

/** Encodes a variant of an enum. */
export function variant (index: number, ...content: readonly Buffer[]): Buffer {
  return Buffer.concat([Buffer.from([index]), ...content])
}

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

  /** Reads a byte that is 0 or 1. */
  readBool (): boolean {
    const byte = this.readByte()
    if (byte > 1) throw new InvalidBcsError('a boolean is 0 or 1')
    return byte === 1
  }

  /** Reads an unsigned integer of a size in bytes. */
  readInteger (size: number): bigint {
    return BigInt(`0x${Buffer.from(this.readBytes(size)).reverse().toString('hex')}`)
  }

  /** Reads a length in ULEB128, of up to four bytes. */
  readLength (): number {
    let length = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.readByte()
      length |= (byte & 0x7f) << shift
      // Rejects a trailing zero group, which would be a second encoding of the same number.
      if (byte === 0 && shift > 0) break
      if (byte < 0x80) return length
    }
    throw new InvalidBcsError('malformed length')
  }

  /** Reads bytes prefixed by their length. */
  readSizedBytes (): Buffer {
    return this.readBytes(this.readLength())
  }

  /** Reads UTF-8, prefixed by its length in bytes. */
  readText (): string {
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(this.readSizedBytes())
    } catch {
      throw new InvalidBcsError('text that is not UTF-8')
    }
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
