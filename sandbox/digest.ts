import { hash } from 'node:crypto'

/** Input that a digest accepts. */
export type DigestPart = string | number | bigint | Buffer

/** Derives all content that looks random: equal parts give equal bytes. */
export function digest (...parts: DigestPart[]): Buffer {
  return hash('sha256', parts.map(textOf).join('/'), 'buffer')
}

/** Returns a digest in the form in which the ledger prints hashes. */
export function digestHex (...parts: DigestPart[]): string {
  return `0x${hash('sha256', parts.map(textOf).join('/'), 'hex')}`
}

/** Computes many digests faster than one call for each. */
export function digestsHex (count: number, ...parts: DigestPart[]): string[] {
  const text = parts.map(textOf).join('/')
  const found: string[] = []
  for (let round = 0; found.length < count; round++) {
    const pair = hash('sha512', `${text}/${round}`, 'hex')
    found.push(`0x${pair.slice(0, 64)}`, `0x${pair.slice(64)}`)
  }
  return found.slice(0, count)
}

/** Endless, repeatable stream of bytes derived from one digest. */
export class DigestRandom {
  readonly #seed: string
  #round = 0
  #remaining: Buffer = Buffer.alloc(0)

  constructor (...parts: DigestPart[]) {
    this.#seed = digestHex(...parts)
  }

  bytes (count: number): Buffer {
    while (this.#remaining.length < count) {
      this.#remaining = Buffer.concat([this.#remaining, digest(this.#seed, this.#round++)])
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

function textOf (part: DigestPart): string {
  return Buffer.isBuffer(part) ? part.toString('hex') : String(part)
}
