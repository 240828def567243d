import {
  type ResponseFormat,
  requestedFormat,
  pageSize,
  pathParam,
  type RequestContext,
  successResponse,
  type LedgerSnapshot,
  requireAccount
} from './request-context.js'
import { type Address, readAddress, shortAddress } from './address.js'
import { sequenceBytes } from './bcs.js'
import { emptyStream, type LedgerEvent, type AccountEventStream, eventBytes, eventRecord, streams } from './events.js'
import {
  readAddressParam,
  readIdentifierParam,
  readLimitQuery,
  readStructTagParam,
  readU64Param,
  readU64Query
} from './params.js'
import { stateNotFound, invalidInput, Problem, resourceNotFound, versionPruned } from './problem.js'
import { type SandboxResponse } from './make-response.js'
import { resourceAt } from './state.js'
import { printTypeTag, type StructTag } from './type-tag.js'

/** Lists the events of the stream of an event handle. */
export function readEventsByHandle (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const tag = readStructTagParam('event_handle', pathParam(context, 1))
  const field = readIdentifierParam('field_name', pathParam(context, 2))
  const start = readU64Query(context.query, 'start')
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get events by event handle')
  return eventsResponse(context, format, streamOf(context.snapshot, address, tag, field), start, limit)
}

/** Lists the events of a stream by its creation number, even if its handle no longer exists. */
export function readEventsByNumber (context: RequestContext): SandboxResponse {
  const address = readAddressParam('address', pathParam(context, 0))
  const number = readU64Param('creation_number', pathParam(context, 1))
  const start = readU64Query(context.query, 'start')
  const limit = readLimitQuery(context.query)
  const format = requestedFormat(context, 'Get events by event key')
  requireAccount(context, address, context.snapshot.position.version)
  return eventsResponse(context, format, streamByNumber(address, number), start, limit)
}

function eventsResponse (
  context: RequestContext,
  format: ResponseFormat,
  stream: AccountEventStream,
  start: bigint | undefined,
  limit: number | undefined
): SandboxResponse {
  const size = pageSize(limit, context.settings.eventsDefault, context.settings.eventsMax)
  const page = pageOf(context.snapshot, stream, start, size)
  return successResponse(
    context,
    format,
    format === 'bcs'
      ? sequenceBytes(page.map(eventBytes))
      : JSON.stringify(
        page.map(event => ({ version: String(event.version), ...eventRecord(event) }))
      )
  )
}

// Looks the handle up in the resource at the head, whatever `start` is.
function streamOf (
  { ledger, position }: LedgerSnapshot,
  address: Address,
  tag: StructTag,
  field: string
): AccountEventStream {
  const resource = resourceAt(ledger, address, tag, position.version)
  if (resource === undefined) throw resourceNotFound(address, tag, position.version)
  const members = JSON.parse(resource.value.json) as Readonly<Record<string, unknown>>
  if (!Object.hasOwn(members, field)) {
    const by = `Address(${shortAddress(address)}), Struct tag(${printTypeTag(tag)}), Field name(${field})`
    throw stateNotFound('struct_field_not_found', 'Struct Field', by, position.version)
  }
  const { guid } = (members[field] ?? {}) as { guid?: { id: { addr: string, creation_num: string } } }
  if (guid === undefined) {
    throw invalidInput(
      `Deserialization error, field(${field}) type is not a EventHandle struct: unexpected end of input`
    )
  }
  return streamByNumber(String(readAddress(guid.id.addr)), BigInt(guid.id.creation_num))
}

function streamByNumber (address: Address, number: bigint): AccountEventStream {
  return streams.find(({ account, creationNumber }) => account === address && creationNumber === number) ??
    emptyStream(address, number)
}

function pageOf (
  snapshot: LedgerSnapshot,
  stream: AccountEventStream,
  start: bigint | undefined,
  size: number
): LedgerEvent[] {
  const count = stream.countAtHeight(Number(snapshot.position.blockHeight))
  const from = start === undefined ? Math.max(0, count - size) : Number(start)
  const to = Math.min(from + size, count)
  const oldest = firstUnprunedEvent(snapshot, stream, count)
  const first = from < oldest && from < to ? firstServedEvent(snapshot, stream, from, oldest, count) : from
  return Array.from(
    { length: Math.max(0, to - first) },
    (_, index) => stream.eventAt(snapshot.ledger, first + index)
  )
}

// Nodes have responded in each of these ways; with `served` they serve events below their advertised oldest version.
function firstServedEvent (
  { ledger }: LedgerSnapshot,
  stream: AccountEventStream,
  from: number,
  oldest: number,
  count: number
): number {
  switch (ledger.prunedEvents) {
    case 'error500':
      if (oldest === count) return count
      throw new Problem(
        'ledger',
        'internal_error',
        `First requested event is probably pruned. expected: ${from}, actual: ${oldest}`
      )
    case 'gone410':
      throw versionPruned(stream.eventAt(ledger, from).version)
    case 'empty':
      return count
    case 'gaps':
      return oldest
    case 'served':
      return from
  }
}

function firstUnprunedEvent ({ ledger, position }: LedgerSnapshot, stream: AccountEventStream, count: number): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (stream.eventAt(ledger, middle).version < position.oldestVersion) low = middle + 1
    else high = middle
  }
  return low
}
