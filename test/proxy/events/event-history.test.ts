import t from 'tap'
import { readPosition } from '../../../src/api/position.js'
import { judgeEventHistory, learnStream } from '../../../src/proxy/events/event-history.js'
import { type UpstreamResponse } from '../../../src/api/upstream-response.js'
import { pinTo } from '../../../src/proxy/pinned-read.js'
import { contextAt, readOfTarget } from '../../support/proxy-context.js'
import { stamps } from '../../support/stub-upstream.js'

const read = readOfTarget('/v1/accounts/0x1/events/0x1::a::B/c?start=80&limit=3')
const pinned = pinTo({ id: 4, generation: 1 }, read)
const { eventsFamily = '' } = pinned
const guid = { creation_number: '1', account_address: '0x1' }
const events = JSON.stringify([{ version: '600', guid, sequence_number: '82', type: '0x1::a::B', data: {} }])

function responseAt (head: number, status: number, body: string): UpstreamResponse {
  const headers = { 'content-type': 'application/json', ...stamps({ 'x-aptos-ledger-version': String(head) }) }
  return {
    status,
    headers,
    body: Buffer.from(body),
    rest: undefined,
    isFramed: true,
    stamped: readPosition(headers),
    release: undefined
  }
}

t.test('pages and not-founds of a lagging upstream do not change where a path leads', async t => {
  const { context } = contextAt(t, 'http://127.0.0.1:1')
  const leads = (): boolean => context.streamsByHandle.lastKnown(eventsFamily) !== undefined
  learnStream(context, pinned, responseAt(1001, 404, '{}'))
  learnStream(context, pinned, responseAt(1000, 200, events))
  t.equal(leads(), false)
  t.equal(context.lastKnownEvents.reaches(eventsFamily, 82n, 1000n), true, 'it still shows where events end')
  learnStream(context, pinned, responseAt(1003, 200, events))
  learnStream(context, pinned, responseAt(1002, 404, '{}'))
  t.equal(leads(), true)
})

t.test('a page that begins early, or is empty without a position, may lack events', async t => {
  const { context } = contextAt(t, 'http://127.0.0.1:1')
  const verdict = { lifetime: undefined, notStored: 'empty_page' } as const
  const empty = { ...responseAt(1000, 200, '[]'), stamped: undefined }
  for (const response of [responseAt(1000, 200, events.replace('"82"', '"79"')), empty]) {
    t.equal(judgeEventHistory(context, read, eventsFamily, { response, verdict }).missing, 'partial')
  }
})
