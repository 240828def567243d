import t from 'tap'
import {
  headerFamiliesOf,
  makePerResponseHeaders,
  readPerResponseValues
} from '../../src/proxy/per-response-headers.js'
import { type UpstreamResponse } from '../../src/api/upstream-response.js'

const answer: UpstreamResponse = {
  status: 200,
  headers: { 'x-aptos-cursor': 'ab' },
  body: Buffer.alloc(0),
  rest: undefined,
  isFramed: true,
  stamped: undefined,
  release: undefined
}

t.test('the cursor travels under both families of names', async t => {
  t.same(makePerResponseHeaders(readPerResponseValues(answer, 'x-aptos-'), ['node', 'upstream'], 'x-aptos-'), [
    'X-NODE-CURSOR',
    'ab',
    'x-aptos-cursor',
    'ab'
  ])
})

t.test('while no family is known there is nothing of the answer\'s own to send', async t => {
  t.same(makePerResponseHeaders(readPerResponseValues(answer, undefined), ['node', 'upstream'], undefined), [])
  t.same(headerFamiliesOf(['upstream'], undefined), ['x-node-'])
})

t.test('a node that uses the specification\'s names itself is not sent twice', async t => {
  t.same(headerFamiliesOf(['node', 'upstream'], 'x-node-'), ['x-node-'])
})
