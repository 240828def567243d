import t from 'tap'
import { readPosition } from '../../../src/api/position.js'
import { judgeEventHistory, learnStream } from '../../../src/proxy/events/event-history.js'
import { type UpstreamResponse } from '../../../src/api/upstream-response.js'
import { judge } from '../../../src/api/store-verdict.js'
import { pinTo } from '../../../src/proxy/pinned-read.js'
import { contextAt, readOfTarget } from '../../support/proxy-context.js'
import { stamps } from '../../support/stub-upstream.js'

const chain = { id: 4, generation: 1 }
const path = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const { context } = contextAt(t, 'http://127.0.0.1:1')

const events = (first: number, count: number, version = 500): string =>
  JSON.stringify(
    Array.from(
      { length: count },
      (_, at) => ({
        version: String(version + at),
        guid: { creation_number: '1', account_address: '0x1' },
        sequence_number: String(first + at),
        type: '0x1::a::B',
        data: {}
      })
    )
  )

const responseOf = (body: string, status = 200, change: Record<string, string> = {}): UpstreamResponse => {
  const headers = { 'content-type': 'application/json', ...stamps(change) }
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

const lack = (target: string, response: UpstreamResponse): string | undefined => {
  const read = readOfTarget(target)
  const { eventsFamily = '' } = pinTo(chain, read)
  return judgeEventHistory(context, read, eventsFamily, { response, verdict: judge(read, response, context.settings) })
    .missing
}

t.test('a page that begins at its start lacks nothing, whether full or the end', async t => {
  t.equal(lack(`${path}?start=5&limit=3`, responseOf(events(5, 3))), undefined)
  t.equal(lack(`${path}?start=5&limit=3`, responseOf(events(5, 1))), undefined)
  t.equal(lack(`${path}?start=5&limit=3`, responseOf('{}', 404)), undefined, 'the upstream\'s own error')
})

t.test('a page that begins later than its start is pruned, and one that begins earlier is partial', async t => {
  t.equal(lack(`${path}?start=5&limit=3`, responseOf(events(7, 3))), 'pruned')
  t.equal(lack(`${path}?start=5&limit=3`, responseOf(events(4, 3))), 'partial')
  t.equal(lack(`${path}?start=5&limit=3`, responseOf('[{}]')), 'partial', 'an unreadable page may lack anything')
})

t.test('an empty page is the stream end only if the upstream still has the last event seen', async t => {
  const empty = `${path}?start=90&limit=3`
  t.equal(lack(empty, responseOf('[]')), 'partial', 'the stream end is unknown')
  learnStream(context, pinTo(chain, readOfTarget(`${path}?start=80&limit=3`)), responseOf(events(80, 3, 600)))
  t.equal(lack(empty, responseOf('[]')), undefined)
  t.equal(
    lack(empty, responseOf('[]', 200, { 'x-aptos-ledger-oldest-version': '700' })),
    'partial',
    'an upstream without the last event may lack later ones'
  )
  t.equal(lack(`${path}?start=81&limit=3`, responseOf('[]')), 'pruned', 'an event with that number was seen')
  t.equal(lack(empty, { ...responseOf('[]'), stamped: undefined }), 'partial')
})

t.test('the newest events are complete if as many as requested, or if the first is among them', async t => {
  t.equal(lack(`${path}?limit=3`, responseOf(events(50, 3))), undefined)
  t.equal(lack(`${path}?limit=3`, responseOf(events(0, 2))), undefined)
  t.equal(lack(`${path}?limit=3`, responseOf(events(50, 2))), 'partial')
  t.equal(lack(path, responseOf(events(50, 25))), undefined, 'the default limit of upstreams')
  t.equal(lack(path, responseOf(events(50, 24))), 'partial')
  t.equal(lack(path, responseOf('[]')), 'partial')
})

t.test('a page read before its path led nowhere says for that path alone where its events end', async t => {
  const { context } = contextAt(t, 'http://127.0.0.1:1')
  const pinned = pinTo(chain, readOfTarget(`${path}?start=80&limit=3`))
  learnStream(context, pinned, responseOf('{}', 404, { 'x-aptos-ledger-version': '1001' }))
  learnStream(context, pinned, responseOf(events(80, 3, 600)))
  const { eventsFamily = '' } = pinned
  t.equal(context.streamsByHandle.lastKnown(eventsFamily), undefined)
  t.equal(context.lastKnownEvents.reaches(eventsFamily, 82n, 1000n), true)
})
