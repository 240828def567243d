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

/** Reads a canonical ULEB128 of up to four bytes at an offset; undefined when there is none. */
export function readLength (bytes: Buffer, at: number): { value: number, next: number } | undefined {
  let value = 0
  for (let index = 0; index < 4; index++) {
    const byte = bytes[at + index]
    if (byte === undefined) return undefined
    value |= (byte & 0x7f) << (7 * index)
    // Rejects a trailing zero group, which would be a second encoding of the same number.
    if (byte < 0x80) return byte === 0 && index > 0 ? undefined : { value, next: at + index + 1 }
  }
  return undefined
}
