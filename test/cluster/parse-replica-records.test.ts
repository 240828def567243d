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

t.test('a purge record is parsed with or without event pages, and rejected if malformed', async t => {
  const purge = { id: 'a', keys: ['k'], blocks: [{ blocks: 'b', version: 5n }] }
  const pages = [{ stream: 's', first: 0n, last: 2n ** 64n - 1n }]
  const block = { kind: 'versions', family: 'b', first: 5n, last: 5n }
  t.same(parsePurge(encodeWithChecksum(purge)), { id: 'a', keys: ['k'], intervals: [block] })
  t.same(parsePurge(encodeWithChecksum({ ...purge, pages })), {
    id: 'a',
    keys: ['k'],
    intervals: [block, { kind: 'events', family: 's', first: 0n, last: 2n ** 64n - 1n }]
  })
  for (const wrong of [{ stream: 's' }, { stream: 's', first: 1, last: 2 }, { stream: 5, first: 1n, last: 2n }, 's']) {
    t.equal(parsePurge(encodeWithChecksum({ ...purge, pages: [...pages, wrong] })), undefined)
  }
})
