import { type Form } from './accept.js'
import { accountExists } from './account-exists.js'
import { type Address } from './address.js'
import { sequenceBytes } from './bcs.js'
import { emptyStream } from './deposits.js'
import { eventBytes, eventRecord, streamsOf } from './events.js'
import { addressParam, identifierParam, limitQuery, structTagParam, u64Param, u64Query } from './params.js'
import { fieldNotFound, invalidInput, Problem, resourceNotFound, versionPruned } from './problem.js'
import { formOf, pageSize, paramOf, type Question, success, type View } from './question.js'
import { type Reply } from './reply.js'
import { type VersionedEventRecord } from './schema/event.js'
import { resourceAt } from './resources.js'
import { type LedgerEvent, type Stream } from './stream.js'
import { type StructTag } from './type-tag.js'

/** Lists the events that were emitted under a handle. */
export function readEvents (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const tag = structTagParam('event_handle', paramOf(question, 1))
  const field = identifierParam('field_name', paramOf(question, 2))
  const start = u64Query(question.query, 'start')
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get events by event handle')
  return listed(question, form, streamOf(question.view, address, tag, field), start, limit)
}

/** Lists the events of a stream of an account: the same that its handle finds, as long as there is one. */
export function readEventsByNumber (question: Question): Reply {
  const address = addressParam('address', paramOf(question, 0))
  const number = u64Param('creation_number', paramOf(question, 1))
  const start = u64Query(question.query, 'start')
  const limit = limitQuery(question.query)
  const form = formOf(question, 'Get events by event key')
  accountExists(question, address, question.view.position.version)
  const stream = streamsOf(question.view.ledger).find(({ account, creationNumber }) =>
    account === address && creationNumber === number
  )
  return listed(question, form, stream ?? emptyStream(address, number), start, limit)
}

function listed (
  question: Question,
  form: Form,
  stream: Stream,
  start: bigint | undefined,
  limit: number | undefined
): Reply {
  const size = pageSize(limit, question.settings.eventsDefault, question.settings.eventsMax)
  const page = pageOf(question.view, stream, start, size)
  return success(
    question,
    form,
    form === 'bcs'
      ? sequenceBytes(page.map(eventBytes))
      : JSON.stringify(
        page.map(event => ({ version: String(event.version), ...eventRecord(event) } satisfies VersionedEventRecord))
      )
  )
}

// The handle is looked for in the resource as it is at the head, whatever is asked for.
function streamOf ({ ledger, position }: View, address: Address, tag: StructTag, field: string): Stream {
  const resource = resourceAt(ledger, address, tag, position.version)
  if (resource === undefined) throw resourceNotFound(address, tag, position.version)
  const members = JSON.parse(resource.value.json) as Readonly<Record<string, unknown>>
  if (!Object.hasOwn(members, field)) throw fieldNotFound(address, tag, field, position.version)
  const stream = resource.handles[field]
  if (stream === undefined) {
    throw invalidInput(
      `Deserialization error, field(${field}) type is not a EventHandle struct: unexpected end of input`
    )
  }
  return stream
}

function pageOf (view: View, stream: Stream, start: bigint | undefined, size: number): LedgerEvent[] {
  const count = stream.countAt(Number(view.position.blockHeight))
  const from = start === undefined ? Math.max(0, count - size) : Number(start)
  const to = Math.min(from + size, count)
  const oldest = firstKept(view, stream, count)
  return between(view, stream, from < oldest && from < to ? afterPruning(view, stream, from, oldest, count) : from, to)
}

// Nodes have answered for events that are gone in each of these ways; the last keeps more than it advertises.
function afterPruning ({ ledger }: View, stream: Stream, from: number, oldest: number, count: number): number {
  switch (ledger.prunedEvents) {
    case 'error500':
      if (oldest === count) return count
      throw new Problem(
        'ledger',
        'internal_error',
        `First requested event is probably pruned. expected: ${from}, actual: ${oldest}`
      )
    case 'gone410':
      throw versionPruned(stream.eventOf(ledger, from).version)
    case 'empty':
      return count
    case 'gaps':
      return oldest
    case 'kept':
      return from
  }
}

function firstKept ({ ledger, position }: View, stream: Stream, count: number): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (stream.eventOf(ledger, middle).version < position.oldestVersion) low = middle + 1
    else high = middle
  }
  return low
}

function between ({ ledger }: View, stream: Stream, from: number, to: number): LedgerEvent[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, index) => stream.eventOf(ledger, from + index))
}
