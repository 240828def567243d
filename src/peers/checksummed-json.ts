import { crc32 } from 'node:zlib'

/**
 * Serialises a value with a checksum, so that damage counts as absence (law 13: what was stored elsewhere is checked
 * before it is trusted).
 */
export function encodeWithChecksum (value: unknown): string {
  const text = JSON.stringify(value, (_key, item: unknown) => typeof item === 'bigint' ? `${item}n` : item)
  return `${crc32(text).toString(16)} ${text}`
}

/** Parses a sealed text; undefined where it is damaged. */
export function decodeWithChecksum (text: string | undefined): unknown {
  const [, checksum, json] = /^([0-9a-f]{1,8}) (.*)$/s.exec(text ?? '') ?? []
  if (json === undefined || crc32(json).toString(16) !== checksum) return undefined
  try {
    return JSON.parse(
      json,
      (_key, item: unknown) => typeof item === 'string' && /^[0-9]+n$/.test(item) ? BigInt(item.slice(0, -1)) : item
    )
  } catch {
    return undefined
  }
}
