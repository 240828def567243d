import { createHash } from 'node:crypto'

/** The bytes come to an end before what they began. */
export class EndsEarly extends Error {}

/**
 * Takes bytes off a stream as they are needed. What is taken is never longer than what has come, whatever a length in
 * it claims.
 */
export class ByteSource {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #hash = createHash('sha256')
  #chunk: Buffer = Buffer.alloc(0)
  #at = 0

  constructor (chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]()
  }

  /** How many were taken. */
  get at (): number {
    return this.#at
  }

  /** The digest of all that was taken. */
  get digest (): Buffer {
    return this.#hash.copy().digest()
  }

  async take (length: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let left = length; left > 0;) {
      const part = await this.#some(left)
      parts.push(part)
      left -= part.length
    }
    const [only] = parts
    return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts)
  }

  /** Passes over bytes, which are in the digest all the same. */
  async skip (length: number): Promise<void> {
    for (let left = length; left > 0;) left -= (await this.#some(left)).length
  }

  async isAtEnd (): Promise<boolean> {
    return !await this.#fill()
  }

  async #some (most: number): Promise<Buffer> {
    if (!await this.#fill()) throw new EndsEarly('no more bytes')
    const part = this.#chunk.subarray(0, most)
    this.#chunk = this.#chunk.subarray(part.length)
    this.#hash.update(part)
    this.#at += part.length
    return part
  }

  /** Whether there is at least one byte. */
  async #fill (): Promise<boolean> {
    while (this.#chunk.length === 0) {
      const next = await this.#chunks.next()
      if (next.done === true) return false
      this.#chunk = next.value
    }
    return true
  }
}
