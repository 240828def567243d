import { LRUCache } from 'lru-cache'

// Costs a few hundred bytes per path (law 10: nothing grows without bound).
const maxPaths = 10_000

/** Last event seen at a path, and the stream that the path led to. */
interface LastKnownEvent {
  readonly stream: string | undefined
  readonly sequence: bigint
  readonly version: bigint
}

/**
 * Last known event of each path. An empty page before it is pruned, not past the end (law 11: "gone" and "not there"
 * are facts, not guesses).
 */
export class LastKnownEvents {
  readonly #ends = new LRUCache<string, LastKnownEvent>({ max: maxPaths })

  /**
   * Records the last event of a page. The newest events may also lower the end, as may those of another stream, unless
   * they were read below its version.
   */
  record (path: string, end: LastKnownEvent, readAt: bigint, isNewest: boolean): void {
    const known = this.#ends.get(path)
    const isSameStream = known?.stream === end.stream
    if (
      known === undefined || (isSameStream && end.sequence > known.sequence) ||
      ((isNewest || !isSameStream) && readAt >= known.version)
    ) {
      this.#ends.set(path, end)
    }
  }

  /** Forgets a path that leads to no stream at a version, unless an event above that version is known. */
  forget (path: string, readAt: bigint): void {
    const known = this.#ends.get(path)
    if (known !== undefined && readAt >= known.version) this.#ends.delete(path)
  }

  /**
   * Returns true if the last known event is before `sequence` and at or above `oldest`. A node with that history would
   * have later events too.
   */
  endsBefore (path: string, sequence: bigint, oldest: bigint): boolean {
    const known = this.#ends.get(path)
    return known !== undefined && known.sequence < sequence && known.version >= oldest
  }

  /** Returns true if a node at `readAt` must know an event with this number or a later one. */
  reaches (path: string, sequence: bigint, readAt: bigint): boolean {
    const known = this.#ends.get(path)
    return known !== undefined && sequence <= known.sequence && readAt >= known.version
  }
}
