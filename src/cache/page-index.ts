/** Range of event sequence numbers. */
export interface EventRange {
  readonly first: bigint
  readonly last: bigint
}

/** Range of events, with the name of their stream or a path that resolves to it. */
export interface StreamEvents extends EventRange {
  readonly stream: string
}

/** Events of a cached page, and the key of its entry. */
interface IndexedPage extends EventRange {
  readonly key: string
}

/** Pages of a stream sorted by first event, and the longest page length seen, which bounds the search. */
interface StreamPages {
  readonly pages: IndexedPage[]
  longest: bigint
}

/**
 * Maps a range of events to the cached pages that contain any of them; pages may overlap.
 * A record is removed with its entry, so the index stays bounded (law 10).
 */
export class PageIndex {
  readonly #streams = new Map<string, StreamPages>()

  /** Lists the keys of pages that share an event with a range. */
  overlapping ({ stream, first, last }: StreamEvents): string[] {
    const { pages, longest } = this.#streams.get(stream) ?? { pages: [], longest: 0n }
    const found: string[] = []
    // A page that starts further back than the longest page length cannot reach the range.
    let at = lowerBound(pages, first - longest)
    for (let page = pages[at]; page !== undefined && page.first <= last; page = pages[++at]) {
      if (page.last >= first) found.push(page.key)
    }
    return found
  }

  add ({ stream, first, last }: StreamEvents, key: string): void {
    const listing = this.#streams.get(stream) ?? { pages: [], longest: 0n }
    const { pages } = listing
    const width = last - first + 1n
    if (width > listing.longest) listing.longest = width
    pages.splice(lowerBound(pages, first), 0, { first, last, key })
    this.#streams.set(stream, listing)
  }

  remove ({ stream, first, last }: StreamEvents): void {
    const pages = this.#streams.get(stream)?.pages ?? []
    for (let at = lowerBound(pages, first); pages[at]?.first === first; at++) {
      if (pages[at]?.last !== last) continue
      pages.splice(at, 1)
      break
    }
    if (pages.length === 0) this.#streams.delete(stream)
  }

  get size (): number {
    return [...this.#streams.values()].reduce((sum, { pages }) => sum + pages.length, 0)
  }
}

/** Finds the index of the first page that starts at or after a sequence number. */
function lowerBound (pages: readonly IndexedPage[], first: bigint): number {
  let low = 0
  let high = pages.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const page = pages[middle]
    if (page !== undefined && page.first < first) low = middle + 1
    else high = middle
  }
  return low
}
