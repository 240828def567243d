import { LRUCache } from 'lru-cache'

// Costs a few hundred bytes per stream (law 10: nothing grows without bound).
const maxStreams = 10_000

/** Last event seen in a stream. */
export interface LastKnownEvent {
  readonly sequence: bigint
  readonly version: bigint
}

/**
 * Last known event of each stream. An empty page before it is pruned, not past the end (law 11: "gone" and "not there"
 * are facts, not guesses).
 */
export class LastKnownEvents {
  readonly #ends = new LRUCache<string, LastKnownEvent>({ max: maxStreams })

  /**
   * Records the last event of a page. The newest events may also lower the end, unless they were read below its
   * version.
   */
  record (stream: string, end: LastKnownEvent, readAt: bigint, isNewest: boolean): void {
    const known = this.#ends.get(stream)
    if (known === undefined || end.sequence > known.sequence || (isNewest && readAt >= known.version)) {
      this.#ends.set(stream, end)
    }
  }

  /**
   * Returns true if the last known event is before `sequence` and at or above `oldest`. A node with that history would
   * have later events too.
   */
  endsBefore (stream: string, sequence: bigint, oldest: bigint): boolean {
    const known = this.#ends.get(stream)
    return known !== undefined && known.sequence < sequence && known.version >= oldest
  }

  /** Returns true if a node at `readAt` must know an event with this number or a later one. */
  reaches (stream: string, sequence: bigint, readAt: bigint): boolean {
    const known = this.#ends.get(stream)
    return known !== undefined && sequence <= known.sequence && readAt >= known.version
  }
}
