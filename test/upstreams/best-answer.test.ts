import t from 'tap'
import { bestOf, type Flaw, type Given } from '../../src/upstreams/best-answer.js'
import { readPosition } from '../../src/api/position.js'
import { type Member } from '../../src/upstreams/member.js'
import { stamps } from '../support/stub-node.js'

const given = (flaw: Flaw, status: number, body = '', head = 1000, oldest = 0): Given => {
  const headers = stamps({ 'x-aptos-ledger-version': String(head) })
  return {
    flaw,
    member: { window: { oldest: BigInt(oldest), head: BigInt(head) } } as Member,
    answer: {
      status,
      headers,
      body: Buffer.from(body),
      rest: undefined,
      isFramed: true,
      stamped: readPosition(headers),
      release: undefined
    }
  }
}
const best = (all: Given[], events?: 'from' | 'last'): string => {
  const { flaw, answer } = bestOf(all, { events }) ?? {}
  return `${flaw} ${answer?.status} ${answer?.body.toString()}`
}

t.test('a node\'s own word on the question comes before one on itself', async t => {
  t.equal(bestOf([], { events: undefined }), undefined)
  t.equal(best([given('sick', 503, 'a'), given('resting', 429, 'b'), given('sick', 500, 'c')]), 'resting 429 b')
  t.equal(best([given('sick', 503, 'a'), given('sick', 500, 'b')]), 'sick 503 a')
  t.equal(best([given('resting', 429), given('gone', 410, 'b')]), 'gone 410 b')
})

t.test('of what is behind the furthest is the least so', async t => {
  t.equal(
    best([given('behind', 200, 'a', 900), given('behind', 200, 'b', 950), given('behind', 200, 'c', 950)]),
    'behind 200 b'
  )
  t.equal(best([given('sick', 500), given('behind', 200, 'a')]), 'behind 200 a')
})

t.test('of pages of the last events that leave some out the fullest is given, and of those from a number on the word of the longest history', async t => {
  const all = [
    given('thin', 200, '[]', 1000, 30),
    given('thin', 200, '[1]', 1000, 20),
    given('gone', 410, '', 1000, 10)
  ]
  t.equal(best(all, 'last'), 'thin 200 [1]')
  t.equal(best(all, 'from'), 'gone 410 ')
  t.equal(best([given('gone', 410, 'short', 1000, 20), given('gone', 410, 'long', 1000, 10)], 'from'), 'gone 410 long')
  t.equal(best([given('gone', 410, 'short', 1000, 20), given('thin', 200, '[1]', 1000, 10)], 'from'), 'thin 200 [1]')
  t.equal(
    best([given('thin_behind', 200, '[]', 900, 10), given('thin', 200, '[]', 1000, 20)], 'from'),
    'thin 200 []',
    'the end of a stream, of who lags less'
  )
  t.equal(best([given('gone', 410, 'it', 1000, 20)]), 'gone 410 it')
})

t.test('one that lags and still knows of events is better than one that has forgotten them', async t => {
  t.equal(best([given('behind', 200, '[1,2]', 900), given('gone', 410)], 'from'), 'behind 200 [1,2]')
  t.equal(best([given('behind', 200, '[1,2]', 900), given('thin', 200, '[2]')], 'last'), 'behind 200 [1,2]')
  t.equal(best([given('behind', 200, '[]', 900), given('thin', 200, '[]')], 'from'), 'thin 200 []')
  t.equal(best([given('thin_behind', 200, '[]', 900), given('thin', 200, '[]')], 'from'), 'thin 200 []')
  t.equal(best([given('behind', 200, '[1]', 800), given('thin_behind', 200, '[]', 900)], 'last'), 'behind 200 [1]')
  t.equal(
    best([given('thin_behind', 200, '[1]', 800), given('thin_behind', 200, '[]', 900)], 'last'),
    'thin_behind 200 [1]'
  )
})
