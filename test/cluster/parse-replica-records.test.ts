import t from 'tap'
import { encodeWithChecksum } from '../../src/cluster/checksummed-json.js'
import { parseGeneration, parseMessage, parsePurge } from '../../src/cluster/parse-replica-records.js'

const position = {
  chainId: 4,
  head: { version: 9n, timestampUsec: 9n, epoch: undefined, blockHeight: 9n },
  oldest: { version: 0n, blockHeight: 0n }
}

t.test('a position from a replica is rejected unless its family can be header names', async t => {
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
    t.equal(
      parseMessage(encodeWithChecksum({ kind: 'head', generation: 1, stamped })) !== undefined,
      isTaken,
      JSON.stringify(family)
    )
    t.equal(parseGeneration(encodeWithChecksum({ anchors: [], head: stamped }))?.head !== undefined, isTaken)
  }
})

t.test('a purge record is parsed, and rejected if malformed', async t => {
  const purge = { id: 'a', keys: ['k'], blocks: [{ blocks: 'b', version: 5n }] }
  t.same(parsePurge(encodeWithChecksum(purge)), {
    id: 'a',
    keys: ['k'],
    intervals: [{ family: 'b', first: 5n, last: 5n }]
  })
  for (const wrong of [{ blocks: 's' }, { blocks: 's', version: 1 }, { blocks: 5, version: 1n }, 's']) {
    t.equal(parsePurge(encodeWithChecksum({ ...purge, blocks: [...purge.blocks, wrong] })), undefined)
  }
})
