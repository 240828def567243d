import t from 'tap'
import { Space } from '../../src/chain/space.js'
import { KnownPlace } from '../../src/chain/space-places.js'

t.test('a slow read of the spaces of one chain id never replaces those of another', async t => {
  const [four, nine] = [Space.begin(4), Space.begin(9)]
  const known = new KnownPlace({
    read: async chainId => chainId === 4 ? [four.record] : [nine.record],
    put: async record => [record],
    remembered: async () => []
  })
  const [before, after] = await Promise.all([known.read(4), known.read(9)])
  t.same([before, after], [[four.record], [nine.record]])
  known.use(nine)
  t.ok(known.has(nine), 'the place counts for the chain that was asked for last')
})
