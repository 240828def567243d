import { LRUCache } from 'lru-cache'

// At some hundred bytes each.
const maxStreams = 10_000

/** The last event seen of a stream. */
export interface StreamEnd {
  readonly sequence: bigint
  readonly version: bigint
}

/**
 * How far each stream of events was seen to reach, so that an empty page from before that is known for pruning, not for
 * the end (law 11).
 */
export class StreamEnds {
  readonly #ends = new LRUCache<string, StreamEnd>({ max: maxStreams })

  /**
   * Takes in the last event of a page that was read at a version; one of the newest events is the last word where it is
   * no older than what is known, any other only raises it.
   */
  record (stream: string, end: StreamEnd, readAt: bigint, isNewest: boolean): void {
    const known = this.#ends.get(stream)
    if (known === undefined || end.sequence > known.sequence || (isNewest && readAt >= known.version)) {
      this.#ends.set(stream, end)
    }
  }

  /**
   * Whether the stream was seen to end before a number with an event that a node still has whose history begins at a
   * version: it would have any later one too.
   */
  endsBefore (stream: string, sequence: bigint, oldest: bigint): boolean {
    const known = this.#ends.get(stream)
    return known !== undefined && known.sequence < sequence && known.version >= oldest
  }

  /**
   * Whether a node that stands at a version must know of an event with this number or a later one; one that lags behind
   * the last that was seen need not.
   */
  reaches (stream: string, sequence: bigint, readAt: bigint): boolean {
    const known = this.#ends.get(stream)
    return known !== undefined && sequence <= known.sequence && readAt >= known.version
  }
}
