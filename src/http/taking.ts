import { type Socket } from 'node:net'

// Outlasts the kernel's jumps, of up to 79 s at 16 KB/s: a shorter limit cuts honest clients.
const stallTicks = 120

/** How a client takes its response, by the second, from when the kernel first had no room for more. */
export class Taking {
  #takenAtFirst = 0
  #taken = 0
  #behindTicks = 0
  #stalledTicks = 0

  /** A second has passed. */
  look ({ bytesWritten, writableLength }: Pick<Socket, 'bytesWritten' | 'writableLength'>): void {
    const taken = bytesWritten - writableLength
    if (writableLength === 0) this.#behindTicks = 0
    else if (++this.#behindTicks === 1) this.#takenAtFirst = taken
    this.#stalledTicks = this.#behindTicks > 1 && taken === this.#taken ? this.#stalledTicks + 1 : 0
    this.#taken = taken
  }

  /** For how many seconds there has been something to take all the time. */
  get behindTicks (): number {
    return this.#behindTicks
  }

  /** Whether nothing was taken for so long that the client cannot be there. */
  get isStalled (): boolean {
    return this.#stalledTicks >= stallTicks
  }

  /** How much was taken since, which leaves out the buffers that the kernel filled before. */
  get bytesPerSecond (): number {
    return (this.#taken - this.#takenAtFirst) / this.#behindTicks
  }
}
