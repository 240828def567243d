import fc from 'fast-check'
import t from 'tap'
import { type Anchor, Anchors } from '../../src/chain/anchors.js'
import { check, seedTitle } from '../support/properties.js'

const at = (height: number | bigint, chain = 'a'): Anchor => ({ height: BigInt(height), hash: `0x${chain}${height}` })
const heightsOf = ({ list }: Anchors): number[] => list.map(({ height }) => Number(height))
const someHeights = fc.uniqueArray(fc.nat(100_000), { minLength: 1, maxLength: 60 })

t.test(`at most 16 anchors remain, sorted by height, and both ends stay (${seedTitle})`, async () => {
  check(fc.property(someHeights, heights => {
    const anchors = new Anchors(heights.map(height => at(height)))
    const remaining = heightsOf(anchors)
    return remaining.length === Math.min(16, heights.length) && remaining.every((height, nth) =>
      nth === 0 || height > Number(remaining[nth - 1])
    ) &&
      remaining[0] === Math.min(...heights) && remaining.at(-1) === Math.max(...heights)
  }))
})

t.test('anchors added with every head stay dense near the head, sparse behind it, without gaps', async t => {
  const anchors = new Anchors([at(0), at(500), at(1000)])
  for (let height = 1010; height <= 40_000; height += 10) {
    anchors.add([at(height)])
    const remaining = heightsOf(anchors)
    if (remaining[0] !== 0 || remaining.at(-1) !== height || remaining.length > 16) {
      t.fail(`at ${height}: ${remaining.join(' ')}`)
    }
  }
  const distances = heightsOf(anchors).map(height => 40_000 - height).reverse()
  t.ok(
    distances.filter(distance => distance > 0 && distance <= 100).length >= 3,
    `close to the head: ${distances.join(' ')}`
  )
  for (const [nth, distance] of distances.entries()) {
    if (nth > 1) {
      t.ok(
        distance <= 100 || distance < Number(distances[nth - 1]) * 4,
        `no gap at ${distance}: ${distances.join(' ')}`
      )
    }
  }
})

t.test('adding an anchor reports a change', async t => {
  const anchors = new Anchors()
  t.same(anchors.list, [])
  t.equal(anchors.add([at(5), at(3)]), true)
  t.equal(anchors.add([at(5)]), false)
  t.same(anchors.list, [at(3), at(5)])
})

t.test('anchors within an upstream\'s window are listed newest first, both ends included', async t => {
  const anchors = new Anchors([at(1), at(10), at(20), at(30)])
  t.same(anchors.within(10n, 30n), [at(30), at(20), at(10)])
  t.same(anchors.within(11n, 29n), [at(20)])
  t.same(anchors.within(31n, 99n), [])
})

t.test(`shared heights decide if two chains are the same; without any it is unknown (${seedTitle})`, async t => {
  const anchors = new Anchors([at(1), at(10), at(20)])
  t.equal(anchors.isSameChain([at(10), at(11)]), true)
  t.equal(anchors.isSameChain([at(1), at(20, 'b')]), false, 'a chain that forked in between')
  t.equal(anchors.isSameChain([at(2), at(11)]), undefined)
  t.equal(anchors.isSameChain([]), undefined)
  check(fc.property(someHeights, someHeights, (heights, others) => {
    const one = new Anchors(heights.map(height => at(height)))
    const shares = new Anchors(others.map(height => at(height))).list.some(({ height }) =>
      one.list.some(anchor => anchor.height === height)
    )
    return one.isSameChain(new Anchors(others.map(height => at(height))).list) === (shares ? true : undefined) &&
      one.isSameChain(new Anchors(others.map(height => at(height, 'b'))).list) === (shares ? false : undefined)
  }))
})

t.test('heights beyond 2^53 stay distinct', async t => {
  const high = 2n ** 64n - 1n
  const anchors = new Anchors([at(high), at(high - 1n), at(2n ** 53n), at(2n ** 53n + 1n)])
  t.same(anchors.list.map(({ height }) => height), [2n ** 53n, 2n ** 53n + 1n, high - 1n, high])
  t.equal(anchors.isSameChain([at(high - 2n)]), undefined)
})
