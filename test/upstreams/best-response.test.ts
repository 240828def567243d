import t from 'tap'
import { chooseBest, type Flaw, type FlawedResponse } from '../../src/upstreams/best-response.js'
import { readPosition } from '../../src/api/position.js'
import { type Upstream } from '../../src/upstreams/upstream.js'
import { stamps } from '../support/stub-upstream.js'

const flawed = (flaw: Flaw, status: number, body = '', head = 1000, oldest = 0): FlawedResponse => {
  const headers = stamps({ 'x-aptos-ledger-version': String(head) })
  return {
    flaw,
    upstream: { window: { oldest: BigInt(oldest), head: BigInt(head) } } as Upstream,
    response: {
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
const best = (all: FlawedResponse[], events?: 'from' | 'last'): string => {
  const { flaw, response } = chooseBest(all, { events }) ?? {}
  return `${flaw} ${response?.status} ${response?.body.toString()}`
}

t.test('a response about the read is preferred to one about the upstream\'s own state', async t => {
  t.equal(chooseBest([], { events: undefined }), undefined)
  t.equal(
    best([flawed('unhealthy', 503, 'a'), flawed('backing_off', 429, 'b'), flawed('unhealthy', 500, 'c')]),
    'backing_off 429 b'
  )
  t.equal(best([flawed('unhealthy', 503, 'a'), flawed('unhealthy', 500, 'b')]), 'unhealthy 503 a')
  t.equal(best([flawed('backing_off', 429), flawed('pruned', 410, 'b')]), 'pruned 410 b')
})

t.test('of lagging responses the one with the highest head is preferred', async t => {
  t.equal(
    best([flawed('lagging', 200, 'a', 900), flawed('lagging', 200, 'b', 950), flawed('lagging', 200, 'c', 950)]),
    'lagging 200 b'
  )
  t.equal(best([flawed('unhealthy', 500), flawed('lagging', 200, 'a')]), 'lagging 200 a')
})

t.test('the fullest page of last events wins; from a start number the longest history wins', async t => {
  const all = [
    flawed('partial', 200, '[]', 1000, 30),
    flawed('partial', 200, '[1]', 1000, 20),
    flawed('pruned', 410, '', 1000, 10)
  ]
  t.equal(best(all, 'last'), 'partial 200 [1]')
  t.equal(best(all, 'from'), 'pruned 410 ')
  t.equal(
    best([flawed('pruned', 410, 'short', 1000, 20), flawed('pruned', 410, 'long', 1000, 10)], 'from'),
    'pruned 410 long'
  )
  t.equal(
    best([flawed('pruned', 410, 'short', 1000, 20), flawed('partial', 200, '[1]', 1000, 10)], 'from'),
    'partial 200 [1]'
  )
  t.equal(
    best([flawed('partial_lagging', 200, '[]', 900, 10), flawed('partial', 200, '[]', 1000, 20)], 'from'),
    'partial 200 []',
    'the end of a stream, from the upstream that lags less'
  )
  t.equal(best([flawed('pruned', 410, 'it', 1000, 20)]), 'pruned 410 it')
})

t.test('a lagging page with events is preferred to one from an upstream that pruned them', async t => {
  t.equal(best([flawed('lagging', 200, '[1,2]', 900), flawed('pruned', 410)], 'from'), 'lagging 200 [1,2]')
  t.equal(best([flawed('lagging', 200, '[1,2]', 900), flawed('partial', 200, '[2]')], 'last'), 'lagging 200 [1,2]')
  t.equal(best([flawed('lagging', 200, '[]', 900), flawed('partial', 200, '[]')], 'from'), 'partial 200 []')
  t.equal(best([flawed('partial_lagging', 200, '[]', 900), flawed('partial', 200, '[]')], 'from'), 'partial 200 []')
  t.equal(
    best([flawed('lagging', 200, '[1]', 800), flawed('partial_lagging', 200, '[]', 900)], 'last'),
    'lagging 200 [1]'
  )
  t.equal(
    best([flawed('partial_lagging', 200, '[1]', 800), flawed('partial_lagging', 200, '[]', 900)], 'last'),
    'partial_lagging 200 [1]'
  )
})
