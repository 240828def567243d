import { crc32 } from 'node:zlib'

/** A value as a text with a checksum: what was damaged is as good as lost, and never believed. */
export function seal (value: unknown): string {
  const text = JSON.stringify(value, (_key, item: unknown) => typeof item === 'bigint' ? `${item}n` : item)
  return `${crc32(text).toString(16)} ${text}`
}

/** The value of a sealed text; undefined where it is not what was sealed. */
export function unseal (text: string | null | undefined): unknown {
  const [, sum, json] = /^([0-9a-f]{1,8}) (.*)$/s.exec(text ?? '') ?? []
  if (json === undefined || crc32(json).toString(16) !== sum) return undefined
  try {
    return JSON.parse(
      json,
      (_key, item: unknown) => typeof item === 'string' && /^[0-9]+n$/.test(item) ? BigInt(item.slice(0, -1)) : item
    )
  } catch {
    return undefined
  }
}
