/** A run of events of a stream. */
export interface EventRange {
  readonly first: bigint
  readonly last: bigint
}

/** A kept page by the events that it has, and what of it decides whether it may be a part of another. */
export interface ListedPage extends EventRange {
  readonly key: string
  readonly release: string | undefined
  readonly isJoinable: boolean
}

/** The pages of a stream in the order of their first events, and how many events the longest of them ever had. */
interface Listing {
  readonly pages: ListedPage[]
  widest: bigint
}

/**
 * From a run of events to the kept pages that have any of them. Pages of one stream may overlap as clients please; a
 * record lives as long as its entry, so the index is bounded by what it points to.
 */
export class PageIndex {
  readonly #streams = new Map<string, Listing>()

  /** The pages that have any event of a run, in the order of their first events. */
  overlapping (stream: string, { first, last }: EventRange): ListedPage[] {
    const { pages, widest } = this.#streams.get(stream) ?? { pages: [], widest: 0n }
    const found: ListedPage[] = []
    // What begins further back than the longest page reaches cannot have any.
    let at = placeOf(pages, first - widest)
    for (let page = pages[at]; page !== undefined && page.first <= last; page = pages[++at]) {
      if (page.last >= first) found.push(page)
    }
    return found
  }

  add (stream: string, page: ListedPage): void {
    const listing = this.#streams.get(stream) ?? { pages: [], widest: 0n }
    const { pages } = listing
    const width = page.last - page.first + 1n
    if (width > listing.widest) listing.widest = width
    pages.splice(placeOf(pages, page.first), 0, page)
    this.#streams.set(stream, listing)
  }

  remove (stream: string, { first, last }: EventRange): void {
    const pages = this.#streams.get(stream)?.pages ?? []
    for (let at = placeOf(pages, first); pages[at]?.first === first; at++) {
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

/**
 * The fewest ranges, of those in the order of their first events, that have every event of a run between them;
 * undefined where one is missing.
 */
export function coverOf<Range extends EventRange> (
  ranges: Iterable<Range>,
  { first, last }: EventRange
): Range[] | undefined {
  const chosen: Range[] = []
  let next = first
  let best: Range | undefined
  for (const range of ranges) {
    if (range.first > next) {
      if (best === undefined || best.last < next) return undefined
      chosen.push(best)
      next = best.last + 1n
      if (next > last) return chosen
      if (range.first > next) return undefined
    }
    if (best === undefined || range.last > best.last) best = range
  }
  return best === undefined || best.last < last || best.last < next ? undefined : [...chosen, best]
}

/** Where the first page stands that does not begin before a number. */
function placeOf (pages: readonly ListedPage[], first: bigint): number {
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
