import { LRUCache } from 'lru-cache'

// At some hundred bytes each.
const maxNames = 10_000

/** Which stream a path led to, at which version that was seen, and for how long it is believed. */
export interface StreamName {
  readonly stream: string
  readonly readAt: bigint
  readonly expiresAtMs: number
  /** For how long other replicas believe it that were told. */
  readonly sharedUntilMs: number
}

/**
 * Maps the path of an event handle to its stream, for a limited time: a handle can get another stream
 * (docs/node-behaviour.md, "Event streams"). A later response replaces the entry.
 */
export class StreamNames {
  readonly #names = new LRUCache<string, StreamName>({ max: maxNames })
  // At which version paths were seen to lead nowhere: what other replicas saw before that is not believed.
  readonly #removedAtVersion = new LRUCache<string, bigint>({ max: maxNames })
  readonly #now: () => number
  readonly #onChanged: () => void

  /** Tells when a path leads elsewhere, or nobody knows where any more. */
  constructor (now: () => number, onChanged: () => void) {
    this.#now = now
    this.#onChanged = onChanged
  }

  /** What is believed of a path now. */
  find (path: string): StreamName | undefined {
    const name = this.#names.get(path)
    return name !== undefined && this.#now() < name.expiresAtMs ? name : undefined
  }

  /** The stream that a path led to last, also where nobody would vouch for it any more. */
  lastKnown (path: string): string | undefined {
    return this.#names.get(path)?.stream
  }

  /** Takes in where a path led at a version; what is known of a later version stands. */
  learn (path: string, stream: string, readAt: bigint, ttlMs: number): void {
    const known = this.#names.get(path)
    if (readAt < (this.#removedAtVersion.get(path) ?? 0n) || (known !== undefined && readAt < known.readAt)) return
    this.#removedAtVersion.delete(path)
    const isNew = known?.stream !== stream
    this.#names.set(path, {
      stream,
      readAt,
      expiresAtMs: this.#now() + ttlMs,
      sharedUntilMs: isNew ? -Infinity : known.sharedUntilMs
    })
    if (isNew) this.#onChanged()
  }

  /** The name to tell other replicas of: one that they believe for less than half as long as it is believed here. */
  takeDueForSharing (path: string): StreamName | undefined {
    const name = this.find(path)
    if (name === undefined || name.sharedUntilMs - this.#now() >= (name.expiresAtMs - this.#now()) / 2) return undefined
    this.#names.set(path, { ...name, sharedUntilMs: name.expiresAtMs })
    return name
  }

  /** Forgets where a path led, unless that was seen at a later version than this. */
  remove (path: string, readAt?: bigint): void {
    const known = this.#names.get(path)
    if (known !== undefined && readAt !== undefined && readAt < known.readAt) return
    if (readAt !== undefined) this.#removedAtVersion.set(path, readAt)
    if (known === undefined) return
    this.#names.delete(path)
    this.#onChanged()
  }
}
