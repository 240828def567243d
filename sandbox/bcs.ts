/** Little-endian bytes of an unsigned or two's complement integer. */
export function integerBytes (value: bigint, size: number): Buffer {
  const bytes = Buffer.alloc(size)
  let rest = BigInt.asUintN(size * 8, value)
  for (let at = 0; at < size; at++) {
    bytes[at] = Number(rest & 0xffn)
    rest >>= 8n
  }
  return bytes
}

/** Eight little-endian bytes. */
export function u64Bytes (value: bigint): Buffer {
  return integerBytes(value, 8)
}

/** A length as ULEB128. */
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

/** Bytes with their length before them. */
export function sizedBytes (bytes: Buffer): Buffer {
  return Buffer.concat([lengthBytes(bytes.length), bytes])
}

/** Text with its length in bytes before it. */
export function textBytes (text: string): Buffer {
  return sizedBytes(Buffer.from(text))
}

/** A sequence with its length before it. */
export function sequenceBytes (items: readonly Buffer[]): Buffer {
  return Buffer.concat([lengthBytes(items.length), ...items])
}

/** Reads a canonical ULEB128 at an offset; undefined when there is none. */
export function readLength (bytes: Buffer, at: number): { value: number, next: number } | undefined {
  let value = 0
  for (let index = 0; index < 4; index++) {
    const byte = bytes[at + index]
    if (byte === undefined) return undefined
    value |= (byte & 0x7f) << (7 * index)
    // A last group of nothing would be a second spelling of the same number.
    if (byte < 0x80) return byte === 0 && index > 0 ? undefined : { value, next: at + index + 1 }
  }
  return undefined
}
