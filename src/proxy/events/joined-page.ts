import { versionAt } from '../../api/event-page.js'
import { type Entry, makeEntry } from '../../cache/entry.js'
import { type Memory } from '../../cache/memory.js'
import { coverOf, type EventRange, type ListedPage } from '../../cache/page-index.js'

/** A page that is wanted, and the stream and the key that it would be kept under. */
export interface WantedPage extends EventRange {
  readonly stream: string
  readonly key: string
}

// What expires while it is looked at makes room for another look.
const mostLooks = 10
const [opening, comma, closing] = [Buffer.from('['), Buffer.from(','), Buffer.from(']')]

/**
 * A page whose events all stand in kept pages of its stream, in the bytes that they have there; undefined where one is
 * missing. All parts are of one release, one that is not gone where that can be had, since no node would mix what two
 * releases render (law 8).
 */
export function joinedPage (
  memory: Memory,
  wanted: WantedPage,
  isGone: (release: string) => boolean
): Entry | undefined {
  for (let look = 0; look < mostLooks; look++) {
    const chosen = partsFor(memory.pagesWith(wanted.stream, wanted), wanted, isGone)
    if (chosen === undefined) return undefined
    const entries = chosen.map(({ key }) => memory.get(key))
    const kept = entries.filter(entry => entry !== undefined)
    if (kept.length === entries.length) return join(kept, wanted)
  }
  return undefined
}

function partsFor (
  pages: readonly ListedPage[],
  wanted: EventRange,
  isGone: (release: string) => boolean
): ListedPage[] | undefined {
  const joinable = pages.filter(({ isJoinable }) => isJoinable)
  const releases = new Set(joinable.map(({ release }) => release).filter(release => release !== undefined))
  const gone = [...releases].filter(isGone)
  // What nobody knows the release of may be of today.
  for (const release of [...[...releases].filter(one => !gone.includes(one)), undefined, ...gone]) {
    const chosen = coverOf(joinable.filter(page => page.release === release), wanted)
    // Two of no known release may be of two.
    if (chosen !== undefined && (release !== undefined || chosen.length === 1)) return chosen
  }
  return undefined
}

function join (entries: readonly Entry[], { stream, key, first, last }: WantedPage): Entry | undefined {
  const [{ contentType, release } = { contentType: '', release: undefined }] = entries
  const pieces: Buffer[] = []
  const offsets = new Uint32Array(Number(last - first) + 2)
  let count = 0
  let length = opening.length
  let versionBefore: bigint | undefined
  let lowestVersion: bigint | undefined
  for (const { body, page, contentType: type } of entries) {
    if (page?.offsets === undefined || type !== contentType) return undefined
    const from = Number(first - page.first) + count
    const to = Number((last < page.last ? last : page.last) - page.first) + 1
    const begins = page.offsets.subarray(from, to + 1)
    const [start = 0, second = 0, lastStart = 0, end = 0] = [
      begins[0],
      begins[1],
      begins[begins.length - 2],
      begins[begins.length - 1]
    ]
    const lowest = versionAt(body, start, second - 1)
    // A node's own page in which versions fall is not kept either.
    if (lowest === undefined || (versionBefore !== undefined && lowest < versionBefore)) return undefined
    versionBefore = versionAt(body, lastStart, end - 1)
    lowestVersion ??= lowest
    for (const [nth, begin] of begins.entries()) offsets[count + nth] = length + begin - start
    pieces.push(pieces.length === 0 ? opening : comma, body.subarray(start, end - 1))
    count += to - from
    length += end - start
  }
  return makeEntry({
    key,
    status: 200,
    contentType,
    body: Buffer.concat([...pieces, closing]),
    ownLines: [],
    release,
    expiresAtMs: soonest(entries),
    page: { stream, first, last, offsets },
    lowestVersion
  })
}

function soonest (entries: readonly Entry[]): number | undefined {
  const expiresAtMs = Math.min(...entries.map(entry => entry.expiresAtMs ?? Infinity))
  return expiresAtMs === Infinity ? undefined : expiresAtMs
}
