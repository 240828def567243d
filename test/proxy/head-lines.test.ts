import t from 'tap'
import { type Position } from '../../src/api/position.js'
import { Tracker } from '../../src/chain/tracker.js'
import { HeadLines } from '../../src/proxy/head-lines.js'

const positionAt = (version: bigint): Position => ({
  chainId: 4,
  head: { version, timestampUsec: version, epoch: undefined, blockHeight: version },
  oldest: { version: 0n, blockHeight: 0n }
})

t.test('lines are put together once for a position, and anew when the position or the names of the node have changed, whoever noticed first', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new HeadLines(tracker, ['upstream'])
  const [one, two] = [positionAt(1n), positionAt(2n)]
  tracker.learn(two, 'x-a-')
  const first = heads.of(one, 'hit', 'no-cache')
  t.equal(heads.of(one, 'hit', 'no-cache'), first)
  t.not(heads.of(one, 'hit', undefined), first)
  t.match(
    first.text,
    /^cache-status: hit\r\nvary: [^\r]+\r\nx-a-chain-id: 4\r\n(?:x-a-[a-z-]+: \d\r\n)+cache-control: no-cache\r\n$/
  )
  tracker.learn(positionAt(3n), 'x-b-')
  t.ok(heads.positionLines(two).includes('x-b-chain-id'))
  t.match(
    heads.of(one, 'hit', 'no-cache').text,
    /x-b-chain-id/,
    'what is passed on may have been the first to have the new names'
  )
  t.notMatch(heads.of(two, 'hit', 'no-cache').text, /x-a-/)
})

t.test('where an operator wants no names of positions none are sent, and the lines are put together once all the same', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new HeadLines(tracker, [])
  const position = positionAt(1n)
  tracker.learn(position, 'x-a-')
  const first = heads.of(position, 'hit', undefined)
  t.notMatch(first.text, /chain-id/)
  t.equal(heads.of(position, 'hit', undefined), first)
})

t.test('where no position is known none is shown, and it is when it is known', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new HeadLines(tracker, ['node', 'upstream'])
  t.notMatch(heads.of(undefined, 'hit', undefined).text, /chain-id/)
  const position = positionAt(1n)
  tracker.learn(position, 'x-a-')
  t.match(heads.of(position, 'hit', undefined).text, /X-NODE-CHAIN-ID: 4\r\n[^]*x-a-chain-id: 4\r\n/)
})
