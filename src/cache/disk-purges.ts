import { type EntryIdentity, type PurgeRecord } from './disk-segment.js'

// Beyond this many purges everything older counts as purged (law 10: nothing grows without bound).
const maxPurges = 1000
const comparedBytes = 12

/**
 * Purges of the disk tier, numbered in order. An entry carries the number of the last purge before its fetch, so a
 * purge covers it wherever a copy of it lies.
 */
export class DiskPurges {
  readonly #sequences = new Set<number>()
  // Highest sequence of a purge, by the digest that it names.
  readonly #digests = new Map<string, number>()
  #intervals: ReadonlyArray<PurgeRecord['intervals'][number] & { readonly sequence: number }> = []
  #last = 0
  // Everything with a lower sequence counts as purged.
  #floor = 0

  /** Number of the last purge. */
  get sequence (): number {
    return this.#last
  }

  /** True if the next purge is to be one of everything. */
  get isFull (): boolean {
    return this.#sequences.size >= maxPurges
  }

  add ({ sequence, isOfAll, digests, intervals }: PurgeRecord): void {
    this.learn(sequence)
    this.#sequences.add(sequence)
    if (isOfAll) return this.forgetUpTo(sequence)
    for (const digest of digests) {
      const text = textOf(digest)
      this.#digests.set(text, Math.max(sequence, this.#digests.get(text) ?? 0))
    }
    this.#intervals = [...this.#intervals, ...intervals.map(interval => ({ ...interval, sequence }))]
  }

  /** Learns of a sequence that an entry has. */
  learn (sequence: number): void {
    this.#last = Math.max(this.#last, sequence)
  }

  /** Covers everything older than a purge that was lost with its segment, because nothing says what it named. */
  coverLost (): void {
    let sequence = this.#last
    while (this.#sequences.has(sequence)) sequence--
    this.#floor = Math.max(this.#floor, sequence)
  }

  /** Returns true if a purge covers an entry. */
  covers ({ digest, sequence, interval }: EntryIdentity): boolean {
    if (sequence >= this.#last) return false
    if (sequence < this.#floor || sequence < (this.#digests.get(textOf(digest)) ?? 0)) return true
    return interval !== undefined &&
      this.#intervals.some(purged =>
        sequence < purged.sequence && purged.family === interval.family && purged.first <= interval.last &&
        interval.first <= purged.last
      )
  }

  /** Forgets purges up to one; everything older than it is covered. */
  forgetUpTo (minSequence: number): void {
    const isObsolete = (sequence: number): boolean => sequence <= minSequence
    for (const sequence of this.#sequences) {
      if (!isObsolete(sequence)) continue
      this.#sequences.delete(sequence)
      this.#floor = Math.max(this.#floor, sequence)
    }
    for (const [text, sequence] of this.#digests) if (isObsolete(sequence)) this.#digests.delete(text)
    this.#intervals = this.#intervals.filter(({ sequence }) => !isObsolete(sequence))
  }
}

function textOf (digest: Buffer): string {
  return digest.toString('latin1', 0, comparedBytes)
}
