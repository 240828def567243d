import t from 'tap'
import { readPosition } from '../../../src/api/position.js'
import { lackOf, learnStream, saysPruned } from '../../../src/proxy/events/streams.js'
import { type Answer } from '../../../src/api/answer.js'
import { judge } from '../../../src/api/lifetime.js'
import { partsAt, readOf } from '../../support/parts.js'
import { stamps } from '../../support/stub-node.js'

const chain = { id: 4, generation: 1 }
const path = '/v1/accounts/0x1/events/0x1::block::BlockResource/new_block_events'
const { parts } = partsAt(t, 'http://127.0.0.1:1')

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

const answerOf = (body: string, status = 200, change: Record<string, string> = {}): Answer => {
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

const lack = (target: string, answer: Answer): string | undefined => {
  const read = readOf(target)
  return lackOf(parts, read, chain, { answer, verdict: judge(read, answer, parts.settings) })
}

t.test('a page that begins where it was asked to lacks nothing, whether it is full or the end', async t => {
  t.equal(lack(`${path}?start=5&limit=3`, answerOf(events(5, 3))), undefined)
  t.equal(lack(`${path}?start=5&limit=3`, answerOf(events(5, 1))), undefined)
  t.equal(lack('/v1/accounts/0x1/modules?ledger_version=500', answerOf('[]')), undefined, 'no page of events')
  t.equal(lack(`${path}?start=5&limit=3`, answerOf('{}', 404)), undefined, 'the node\'s own word')
})

t.test('a page that goes on with later events than were asked for says that those are gone, and one from before them may lack anything', async t => {
  t.equal(lack(`${path}?start=5&limit=3`, answerOf(events(7, 3))), 'gone')
  t.equal(lack(`${path}?start=5&limit=3`, answerOf(events(4, 3))), 'thin')
  t.equal(lack(`${path}?start=5&limit=3`, answerOf('[{}]')), 'thin', 'what cannot be read may lack anything')
})

t.test('an empty page is the end of the stream where its last event was seen and the node still has that one; else a longer history may have more', async t => {
  const empty = `${path}?start=90&limit=3`
  t.equal(lack(empty, answerOf('[]')), 'thin', 'nobody has seen how far it reaches')
  learnStream(parts, readOf(`${path}?start=80&limit=3`), chain, answerOf(events(80, 3, 600)))
  t.equal(lack(empty, answerOf('[]')), undefined)
  t.equal(
    lack(empty, answerOf('[]', 200, { 'x-aptos-ledger-oldest-version': '700' })),
    'thin',
    'one that has forgotten the last event may have forgotten later ones'
  )
  t.equal(lack(`${path}?start=81&limit=3`, answerOf('[]')), 'gone', 'an event with that number was seen')
  t.equal(lack(empty, { ...answerOf('[]'), stamped: undefined }), 'thin')
})

t.test('the last events are all there where there are as many as were asked for, or the very first among them', async t => {
  t.equal(lack(`${path}?limit=3`, answerOf(events(50, 3))), undefined)
  t.equal(lack(`${path}?limit=3`, answerOf(events(0, 2))), undefined)
  t.equal(lack(`${path}?limit=3`, answerOf(events(50, 2))), 'thin')
  t.equal(lack(path, answerOf(events(50, 25))), undefined, 'as many as nodes give who are asked for no number')
  t.equal(lack(path, answerOf(events(50, 24))), 'thin')
  t.equal(lack(path, answerOf('[]')), 'thin')
})

t.test('a node says that history is gone with a 410, or with a 500 of the kind of before', async t => {
  t.ok(saysPruned(answerOf('{}', 410)))
  t.ok(saysPruned(answerOf('{"message":"First requested event is probably pruned."}', 500)))
  t.notOk(saysPruned(answerOf('{"message":"it is sick"}', 500)))
  t.notOk(saysPruned(answerOf('pruned', 404)))
})
