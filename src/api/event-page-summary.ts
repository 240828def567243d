import { readAddress } from './address.js'
import { readU64 } from './integer.js'
import { itemRangesIn, membersIn, type ByteRange, stringIn, u64In } from './json-scan.js'
import { streamPathOf } from './request-targets.js'

/** Properties that a page of events states. */
export interface EventPageSummary {
  readonly count: number
  /** The sequence number of the first event; undefined on an empty page. */
  readonly first: bigint | undefined
  /** The sequence number of the last event; undefined on an empty page. */
  readonly last: bigint | undefined
  /** True if sequence numbers rise by one, versions never fall and all events share one guid. */
  readonly isContiguous: boolean
  /** The ledger version of the first event, the lowest of a contiguous page; undefined on an empty page. */
  readonly lowestVersion: bigint | undefined
  /** The ledger version of the last event, the highest of a contiguous page; undefined on an empty page. */
  readonly highestVersion: bigint | undefined
  /**
   * Path of the stream that all events belong to, by their guid; undefined on an empty page or if the stream is
   * uncertain.
   */
  readonly stream: string | undefined
}

interface PageEvent {
  readonly sequence: bigint
  readonly version: bigint
  readonly creation: string
  readonly account: string
}

/** Reads a page of events in JSON; undefined if any item is not certainly an event. */
export function readEventPageSummary (body: Buffer): EventPageSummary | undefined {
  const items = itemRangesIn(body)
  if (items === undefined) return undefined
  const events: PageEvent[] = []
  for (const item of items) {
    const event = readEvent(body, item)
    if (event === undefined) return undefined
    events.push(event)
  }
  const [first, last] = [events[0], events.at(-1)]
  return {
    count: events.length,
    first: first?.sequence,
    last: last?.sequence,
    isContiguous: events.every((event, index) => follows(event, events[index - 1])),
    lowestVersion: first?.version,
    highestVersion: last?.version,
    stream: sharedStreamOf(events)
  }
}

// Both ways to read a stream share one name: its path by creation number.
function sharedStreamOf ([first, ...others]: readonly PageEvent[]): string | undefined {
  if (
    first === undefined ||
    others.some(({ creation, account }) => creation !== first.creation || account !== first.account)
  ) return undefined
  const address = readAddress(first.account)
  const creation = readU64(first.creation)
  return address === undefined || creation === undefined ? undefined : streamPathOf(`0x${address}`, creation)
}

function readEvent (body: Buffer, item: ByteRange): PageEvent | undefined {
  const members = membersIn(body, item)
  const guid = members?.get('guid')
  const parts = guid && membersIn(body, guid)
  const sequence = u64In(body, members?.get('sequence_number'))
  const version = u64In(body, members?.get('version'))
  const creation = stringIn(body, parts?.get('creation_number'))
  const account = stringIn(body, parts?.get('account_address'))
  if (sequence === undefined || version === undefined || creation === undefined || account === undefined) {
    return undefined
  }
  return { sequence, version, creation, account }
}

function follows (event: PageEvent, before: PageEvent | undefined): boolean {
  if (before === undefined) return true
  return event.sequence === before.sequence + 1n && event.version >= before.version &&
    event.creation === before.creation && event.account === before.account
}
