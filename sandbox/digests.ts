import { hash } from 'node:crypto'

/** Input that a digest accepts. */
type DigestPart = string | number | bigint | Buffer

/** Derives all content that looks random: equal parts give equal bytes. */
export function digestBytes (...parts: DigestPart[]): Buffer {
  // Decoding hex is faster than a hash that returns a buffer.
  return Buffer.from(hash('sha256', textOf(parts), 'hex'), 'hex')
}

/** Returns a digest in the form in which the ledger prints hashes. */
export function digestHex (...parts: DigestPart[]): string {
  return `0x${hash('sha256', textOf(parts), 'hex')}`
}

/** Endless, repeatable stream of bytes derived from one digest. */
export class DigestRandom {
  readonly #seed: string
  #round = 0
  #remaining: Buffer = Buffer.alloc(0)

  constructor (...parts: DigestPart[]) {
    this.#seed = textOf(parts)
  }

  bytes (count: number): Buffer {
    while (this.#remaining.length < count) {
      const more = Buffer.from(hash('sha512', `${this.#seed}/${this.#round++}`, 'hex'), 'hex')
      this.#remaining = this.#remaining.length === 0 ? more : Buffer.concat([this.#remaining, more])
    }
    const taken = this.#remaining.subarray(0, count)
    this.#remaining = this.#remaining.subarray(count)
    return taken
  }

  /** Returns a number from 0 up to, but not including, the bound. */
  below (bound: number): number {
    return this.bytes(4).readUInt32LE() % bound
  }
}

/** Draws a number from 0 up to, but not including, 1 for a place of the chain, at less than the cost of a hash. */
export function drawShare (seed: number, place: number): number {
  let bits = Math.imul(seed, 0x9e37_79b1) ^ place
  bits = Math.imul(bits ^ (bits >>> 16), 0x85eb_ca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2_ae35)
  return ((bits ^ (bits >>> 16)) >>> 0) / 2 ** 32
}

function textOf (parts: readonly DigestPart[]): string {
  return parts.map(part => Buffer.isBuffer(part) ? part.toString('hex') : String(part)).join('/')
}

/** Returns the hash function of a type of the ledger: SHA3-256 behind a prefix that names the type. */
export function hasherOf (type: string): (...parts: readonly Buffer[]) => Buffer {
  const prefix = hash('sha3-256', `APTOS::${type}`, 'buffer')
  // Decoding hex is faster than a hash that returns a buffer.
  return (...parts) => Buffer.from(hash('sha3-256', Buffer.concat([prefix, ...parts]), 'hex'), 'hex')
}

/** Prints a hash as JSON does. */
export function printHash (bytes: Buffer): string {
  return `0x${bytes.toString('hex')}`
}
