// Larger chunks stay as they came: copying them costs more than the object that each needs.
const minOwnBytes = 8192
const minSlabBytes = 8192
const maxSlabBytes = 65_536
// A chunk keeps the whole read in which it came; it may be at most this part of what it keeps.
const maxWaste = 4

/**
 * Collects a body of unknown length. Copies small chunks together: a megabyte in chunks of one byte would otherwise
 * take hundreds (law 10: nothing grows without bound).
 */
export class BodyChunks {
  #chunks: Buffer[] = []
  #slab: Buffer | undefined
  #slabUsed = 0
  #length = 0

  get length (): number {
    return this.#length
  }

  /** True when `join` makes a buffer of its own. */
  get isJoined (): boolean {
    return this.#chunks.length > 1 || this.#slab !== undefined
  }

  add (chunk: Buffer): void {
    const isLarge = chunk.length >= minOwnBytes && chunk.length * maxWaste >= chunk.buffer.byteLength
    // Fills an open slab first, so that small chunks between large ones waste none.
    if (this.#length === 0 || (isLarge && this.#slab === undefined)) this.#chunks.push(chunk)
    else this.#copy(chunk)
    this.#length += chunk.length
  }

  /** Returns the body: the only chunk as it came, else one buffer of its own. */
  join (): Buffer {
    const [first] = this.#chunks
    if (first !== undefined && !this.isJoined) return first
    this.#endSlab()
    return Buffer.concat(this.#chunks, this.#length)
  }

  #copy (chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      // Grows with the body, since most bodies in several chunks are short.
      this.#slab ??= Buffer.allocUnsafeSlow(Math.min(maxSlabBytes, Math.max(minSlabBytes, this.#length)))
      const copied = chunk.copy(this.#slab, this.#slabUsed, from)
      this.#slabUsed += copied
      from += copied
      if (this.#slabUsed === this.#slab.length) this.#endSlab()
    }
  }

  #endSlab (): void {
    if (this.#slab === undefined) return
    this.#chunks.push(this.#slab.subarray(0, this.#slabUsed))
    this.#slab = undefined
    this.#slabUsed = 0
  }
}
