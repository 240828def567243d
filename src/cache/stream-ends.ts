import { LRUCache } from 'lru-cache'

// At some hundred bytes each.
const maxStreams = 10_000

/** The last sequence number seen of each stream of events, so that an empty page from before it is known for pruning, not for the end (law 11). */
export class StreamEnds {
  readonly #lasts = new LRUCache<string, bigint>({ max: maxStreams })

  /** Takes in the last event of a page; one of the newest events is the last word, one of an older page only raises it. */
  saw (stream: string, last: bigint, isNewest: boolean): void {
    const known = this.#lasts.get(stream)
    if (isNewest || known === undefined || last > known) this.#lasts.set(stream, last)
  }

  /** Whether a stream is known to have had an event with this number or a later one. */
  reaches (stream: string, sequenceNumber: bigint): boolean {
    const last = this.#lasts.get(stream)
    return last !== undefined && sequenceNumber <= last
  }
}
