/** Memory limit shared by all requests in flight (law 10: nothing grows without bound). */
export class MemoryLimit {
  #availableBytes: number

  constructor (bytes: number) {
    this.#availableBytes = bytes
  }

  /** Reserves memory if enough is available. */
  tryReserve (bytes: number): boolean {
    if (bytes > this.#availableBytes) return false
    this.#availableBytes -= bytes
    return true
  }

  release (bytes: number): void {
    this.#availableBytes += bytes
  }
}

/** Copy of a body that streams past, up to the limits. */
export class GatheredBody {
  readonly #chunks: Buffer[] = []
  readonly #maxBytes: number
  readonly #memory: MemoryLimit
  #reservedBytes = 0
  #length = 0
  #omittedReason: string | undefined

  constructor (maxBytes: number, memory: MemoryLimit) {
    this.#maxBytes = maxBytes
    this.#memory = memory
  }

  add (chunk: Buffer): void {
    this.#length += chunk.length
    if (this.#omittedReason !== undefined) return
    if (this.#length > this.#maxBytes) this.#omit(`it is longer than ${this.#maxBytes} bytes`)
    else if (!this.#memory.tryReserve(chunk.length)) this.#omit('too much else was under way')
    else {
      this.#reservedBytes += chunk.length
      this.#chunks.push(chunk)
    }
  }

  /** Length of the whole body, including bytes that were not gathered. */
  get length (): number {
    return this.#length
  }

  /** Reason for an omitted body; undefined while the body is gathered. */
  get omittedReason (): string | undefined {
    return this.#omittedReason
  }

  get bytes (): Buffer {
    return Buffer.concat(this.#chunks)
  }

  /** Frees the reserved memory. */
  release (): void {
    this.#chunks.length = 0
    this.#memory.release(this.#reservedBytes)
    this.#reservedBytes = 0
  }

  #omit (reason: string): void {
    this.#omittedReason = reason
    this.release()
  }
}
