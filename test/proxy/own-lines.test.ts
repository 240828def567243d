import t from 'tap'
import { familiesOf, ownLines, ownValues } from '../../src/proxy/own-lines.js'
import { type Answer } from '../../src/api/answer.js'

const answer: Answer = {
  status: 200,
  headers: { 'x-aptos-cursor': 'ab' },
  body: Buffer.alloc(0),
  rest: undefined,
  isFramed: true,
  stamped: undefined,
  release: undefined
}

t.test('the cursor travels under both families of names', async t => {
  t.same(ownLines(ownValues(answer, 'x-aptos-'), ['node', 'upstream'], 'x-aptos-'), [
    'X-NODE-CURSOR',
    'ab',
    'x-aptos-cursor',
    'ab'
  ])
})

t.test('while no family is known there is nothing of the answer\'s own to send', async t => {
  t.same(ownLines(ownValues(answer, undefined), ['node', 'upstream'], undefined), [])
  t.same(familiesOf(['upstream'], undefined), ['x-node-'])
})

t.test('a node that uses the specification\'s names itself is not sent twice', async t => {
  t.same(familiesOf(['node', 'upstream'], 'x-node-'), ['x-node-'])
})
