import { type Socket } from 'node:net'

// By seconds. So long a client may take nothing at all, or less than the least below: a network that is away for a moment is back by then, and whoever asks
// is still cut off within ten seconds, as those are that send slowly.
const windowTicks = 6
// 16 KB a second, of whoever has more to take: slower than any network that a ledger is read over, and 8 MB take minutes by it and not days.
const leastBytes = windowTicks * 16 * 1024

/** How a client takes what it is sent: one that does not, or takes only so much as keeps a connection, would hold its answer, and a connection of the node's with it, for ever. */
export class Taking {
  // What it had taken at each of the last ticks, the latest last; none while there is nothing for it to take.
  #taken: number[] = []

  /** A second has passed; whether it has been too slow. */
  isTooSlow ({ bytesWritten, writableLength }: Pick<Socket, 'bytesWritten' | 'writableLength'>): boolean {
    if (writableLength === 0) {
      // Whoever has taken all that is there waits for varve, or for the node.
      if (this.#taken.length > 0) this.#taken = []
      return false
    }
    const now = bytesWritten - writableLength
    const [first = now] = this.#taken
    this.#taken.push(now)
    if (this.#taken.length <= windowTicks) return false
    this.#taken.shift()
    return now - first < leastBytes
  }
}
