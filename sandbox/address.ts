/** An account address as 64 lower-case hex digits, without a prefix. */
export type Address = string

/** Reads the hex digits of an address in any case and padding; undefined when they are not valid. */
export function readAddressDigits (digits: string): Address | undefined {
  return /^[0-9a-fA-F]{1,64}$/.test(digits) ? addressOf(digits.toLowerCase()) : undefined
}

/** Pads digits already known to be valid hex. */
export function addressOf (digits: string): Address {
  return digits.padStart(64, '0')
}

/** Reads an address with or without its 0x prefix; rejects an upper-case `0X`, as nodes do outside of type tags. */
export function readAddress (text: string): Address | undefined {
  return readAddressDigits(text.startsWith('0x') ? text.slice(2) : text)
}

/** Formats an address as JSON responses print it: leading zeros trimmed. */
export function shortAddress (address: Address): string {
  return `0x${address.replace(/^0{1,63}/, '')}`
}

/** Formats an address as change sets print it: all 64 digits. */
export function longAddress (address: Address): string {
  return `0x${address}`
}

/** Decodes an address to its 32 bytes. */
export function addressBytes (address: Address): Buffer {
  return Buffer.from(address, 'hex')
}
