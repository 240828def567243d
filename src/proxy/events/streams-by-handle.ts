import { LRUCache } from 'lru-cache'

// Costs a few hundred bytes per path (law 10: nothing grows without bound).
const maxNames = 10_000

/** Stream that a path led to at a version, and the expiry of that knowledge. */
export interface StreamName {
  readonly stream: string
  readonly readAt: bigint
  readonly expiresAtMs: number
  /** Expiry of the name on the replicas that read it from Redis. */
  readonly sharedUntilMs: number
}

/**
 * Maps the path of an event handle to its stream, for a limited time: a handle can get another stream
 * (docs/node-behaviour.md, "Event streams"). A later response replaces the entry.
 */
export class StreamsByHandle {
  readonly #names = new LRUCache<string, StreamName>({ max: maxNames })
  // Versions at which paths led to no stream; names that were read earlier are ignored.
  readonly #removedAtVersion = new LRUCache<string, bigint>({ max: maxNames })
  readonly #now: () => number
  readonly #onChanged: () => void

  /** Calls `onChanged` when a path leads to another stream or to none. */
  constructor (now: () => number, onChanged: () => void) {
    this.#now = now
    this.#onChanged = onChanged
  }

  /** Returns the stream name of a path; undefined if it is unknown or expired. */
  find (path: string): StreamName | undefined {
    const name = this.#names.get(path)
    return name !== undefined && this.#now() < name.expiresAtMs ? name : undefined
  }

  /** Returns the last known stream of a path, expired or not. */
  lastKnown (path: string): string | undefined {
    return this.#names.get(path)?.stream
  }

  /**
   * Learns the stream of a path at a version, unless a name or removal at a later version is known. Returns the last
   * known stream, expired or not.
   */
  learn (path: string, stream: string, readAt: bigint, ttlMs: number): string | undefined {
    const known = this.#names.get(path)
    if (readAt < (this.#removedAtVersion.get(path) ?? 0n) || (known !== undefined && readAt < known.readAt)) {
      return known?.stream
    }
    this.#removedAtVersion.delete(path)
    const isNew = known?.stream !== stream
    this.#names.set(path, {
      stream,
      readAt,
      expiresAtMs: this.#now() + ttlMs,
      sharedUntilMs: isNew ? -Infinity : known.sharedUntilMs
    })
    if (isNew) this.#onChanged()
    return stream
  }

  /**
   * Returns a name that is due for sharing, and marks it shared. Due means that it expires on replicas in less than
   * half its remaining lifetime here.
   */
  takeDueForSharing (path: string): StreamName | undefined {
    const name = this.find(path)
    if (name === undefined || name.sharedUntilMs - this.#now() >= (name.expiresAtMs - this.#now()) / 2) return undefined
    this.#names.set(path, { ...name, sharedUntilMs: name.expiresAtMs })
    return name
  }

  /** Removes the stream of a path, unless it was learned at a version above `readAt`. */
  remove (path: string, readAt?: bigint): void {
    const known = this.#names.get(path)
    if (known !== undefined && readAt !== undefined && readAt < known.readAt) return
    if (readAt !== undefined) this.#removedAtVersion.set(path, readAt)
    if (known === undefined) return
    this.#names.delete(path)
    this.#onChanged()
  }
}
