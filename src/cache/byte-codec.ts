/** Writes binary fields in big-endian order. */
export class ByteWriter {
  readonly #parts: Buffer[] = []

  u8 (value: number): void {
    this.#parts.push(Buffer.from([value]))
  }

  u16 (value: number): void {
    const part = Buffer.alloc(2)
    part.writeUInt16BE(value)
    this.#parts.push(part)
  }

  u32 (value: number): void {
    const part = Buffer.alloc(4)
    part.writeUInt32BE(value)
    this.#parts.push(part)
  }

  u64 (value: bigint): void {
    const part = Buffer.alloc(8)
    part.writeBigUInt64BE(value)
    this.#parts.push(part)
  }

  /** Writes UTF-8 text after its length in bytes as a u16. */
  text (value: string): void {
    const part = Buffer.from(value)
    this.u16(part.length)
    this.#parts.push(part)
  }

  bytes (value: Buffer): void {
    this.#parts.push(value)
  }

  toBuffer (): Buffer {
    return Buffer.concat(this.#parts)
  }
}

/** Reads the fields of `ByteWriter`; a read past the end throws a RangeError. */
export class ByteReader {
  readonly #source: Buffer
  #at = 0

  constructor (source: Buffer) {
    this.#source = source
  }

  u8 (): number {
    return this.bytes(1).readUInt8()
  }

  u16 (): number {
    return this.bytes(2).readUInt16BE()
  }

  u32 (): number {
    return this.bytes(4).readUInt32BE()
  }

  u64 (): bigint {
    return this.bytes(8).readBigUInt64BE()
  }

  text (): string {
    return this.bytes(this.u16()).toString()
  }

  bytes (length: number): Buffer {
    const end = this.#at + length
    if (end > this.#source.length) throw new RangeError('no more bytes')
    const part = this.#source.subarray(this.#at, end)
    this.#at = end
    return part
  }

  rest (): Buffer {
    return this.bytes(this.#source.length - this.#at)
  }
}
