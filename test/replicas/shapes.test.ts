import t from 'tap'
import { seal } from '../../src/replicas/seal.js'
import { generationIn, messageIn } from '../../src/replicas/shapes.js'

const position = { chainId: 4, head: { version: 9n, timestampUsec: 9n, epoch: undefined, blockHeight: 9n }, oldest: { version: 0n, blockHeight: 0n } }

t.test('a position that others tell of is taken only under names that can be headers: it is shown with every answer', async t => {
  for (const [family, isTaken] of [['x-aptos-', true], ['x-node-', true], ['', false], ['x', false], ['X-A-', false], ['a b-', false], ['a\r\nb: c-', false], [`${'x'.repeat(101)}-`, false]] as const) {
    const stamped = { position, family }
    t.equal(messageIn(seal({ kind: 'head', generation: 1, stamped })) !== undefined, isTaken, JSON.stringify(family))
    t.equal(generationIn(seal({ anchors: [], head: stamped }))?.head !== undefined, isTaken)
  }
})
