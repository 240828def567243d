import { type Socket } from 'node:net'

// Exceeds the pauses that the kernel's buffering causes, up to 79 s at 16 KB/s.
const maxStalledTicks = 120

/** Measures how fast a client takes its response, from the moment the kernel's buffer is full. */
export class ClientThroughputMeter {
  #firstTakenBytes = 0
  #takenBytes = 0
  #backlogTicks = 0
  #stalledTicks = 0

  /** Takes a sample; the caller samples once a second. */
  sample ({ bytesWritten, writableLength }: Pick<Socket, 'bytesWritten' | 'writableLength'>): void {
    const takenBytes = bytesWritten - writableLength
    if (writableLength === 0) this.#backlogTicks = 0
    else if (++this.#backlogTicks === 1) this.#firstTakenBytes = takenBytes
    this.#stalledTicks = this.#backlogTicks > 1 && takenBytes === this.#takenBytes ? this.#stalledTicks + 1 : 0
    this.#takenBytes = takenBytes
  }

  /** Seconds for which the response has had bytes that the kernel did not take. */
  get backlogTicks (): number {
    return this.#backlogTicks
  }

  /** True after 120 s in which the client took nothing. */
  get isStalled (): boolean {
    return this.#stalledTicks >= maxStalledTicks
  }

  /** Average speed, without the bytes that first filled the kernel's buffer. */
  get bytesPerSecond (): number {
    return (this.#takenBytes - this.#firstTakenBytes) / this.#backlogTicks
  }
}
