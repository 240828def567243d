import t from 'tap'
import { seal } from '../../src/cluster/seal.js'
import { parseGeneration, parseMessage, parsePurge } from '../../src/cluster/parse-replica-records.js'

const position = {
  chainId: 4,
  head: { version: 9n, timestampUsec: 9n, epoch: undefined, blockHeight: 9n },
  oldest: { version: 0n, blockHeight: 0n }
}

t.test('a position that others tell of is taken only under names that can be headers: it is shown with every answer', async t => {
  for (
    const [family, isTaken] of [
      ['x-aptos-', true],
      ['x-node-', true],
      ['', false],
      ['x', false],
      ['X-A-', false],
      ['a b-', false],
      ['a\r\nb: c-', false],
      [`${'x'.repeat(101)}-`, false]
    ] as const
  ) {
    const stamped = { position, family }
    t.equal(parseMessage(seal({ kind: 'head', generation: 1, stamped })) !== undefined, isTaken, JSON.stringify(family))
    t.equal(parseGeneration(seal({ anchors: [], head: stamped }))?.head !== undefined, isTaken)
  }
})

t.test('a purge of pages is told with the events that it means; older versions tell of none, and what is not told whole is no purge', async t => {
  const told = { id: 'a', keys: ['k'], blocks: [{ blocks: 'b', version: 5n }] }
  const pages = [{ stream: 's', first: 0n, last: 2n ** 64n - 1n }]
  t.same(parsePurge(seal(told)), { ...told, pages: [] })
  t.same(parsePurge(seal({ ...told, pages })), { ...told, pages })
  for (const wrong of [{ stream: 's' }, { stream: 's', first: 1, last: 2 }, { stream: 5, first: 1n, last: 2n }, 's']) {
    t.equal(parsePurge(seal({ ...told, pages: [...pages, wrong] })), undefined)
  }
})
