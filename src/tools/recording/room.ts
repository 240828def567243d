/** What may be held in memory at a time, of all that is under way (law 10). */
export class Room {
  #left: number

  constructor (bytes: number) {
    this.#left = bytes
  }

  /** Takes so much of it, where it is there. */
  take (bytes: number): boolean {
    if (bytes > this.#left) return false
    this.#left -= bytes
    return true
  }

  give (bytes: number): void {
    this.#left += bytes
  }
}

/** A body that is gathered while it goes by, as far as it may be. */
export class Gathered {
  readonly #chunks: Buffer[] = []
  readonly #longest: number
  readonly #room: Room
  #held = 0
  #length = 0
  #leftOut: string | undefined

  constructor (longest: number, room: Room) {
    this.#longest = longest
    this.#room = room
  }

  add (chunk: Buffer): void {
    this.#length += chunk.length
    if (this.#leftOut !== undefined) return
    if (this.#length > this.#longest) this.#leaveOut(`it is longer than ${this.#longest} bytes`)
    else if (!this.#room.take(chunk.length)) this.#leaveOut('too much else was under way')
    else {
      this.#held += chunk.length
      this.#chunks.push(chunk)
    }
  }

  /** How much of it there was, gathered or not. */
  get length (): number {
    return this.#length
  }

  /** Why it is not gathered; undefined while it is. */
  get leftOut (): string | undefined {
    return this.#leftOut
  }

  get bytes (): Buffer {
    return Buffer.concat(this.#chunks)
  }

  /** Nobody needs it any more. */
  free (): void {
    this.#chunks.length = 0
    this.#room.give(this.#held)
    this.#held = 0
  }

  #leaveOut (reason: string): void {
    this.#leftOut = reason
    this.free()
  }
}
