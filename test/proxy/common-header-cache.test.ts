import t from 'tap'
import { type Position } from '../../src/api/position.js'
import { Tracker } from '../../src/chain/tracker.js'
import { CommonHeaderCache } from '../../src/proxy/common-header-cache.js'

const positionAt = (version: bigint): Position => ({
  chainId: 4,
  head: { version, timestampUsec: version, epoch: undefined, blockHeight: version },
  oldest: { version: 0n, blockHeight: 0n }
})

t.test('common headers are built once per position, and again when position or family changes', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new CommonHeaderCache(tracker, ['upstream'])
  const [one, two] = [positionAt(1n), positionAt(2n)]
  tracker.learn(two, 'x-a-')
  const first = heads.get(one, 'hit', 'no-cache')
  t.equal(heads.get(one, 'hit', 'no-cache'), first)
  t.not(heads.get(one, 'hit', undefined), first)
  t.match(
    first.headerText,
    /^cache-status: hit\r\nvary: [^\r]+\r\nx-a-chain-id: 4\r\n(?:x-a-[a-z-]+: \d\r\n)+cache-control: no-cache\r\n$/
  )
  tracker.learn(positionAt(3n), 'x-b-')
  t.ok(heads.positionHeaders(two).includes('x-b-chain-id'))
  t.match(
    heads.get(one, 'hit', 'no-cache').headerText,
    /x-b-chain-id/,
    'a forwarded response may have been the first with the new names'
  )
  t.notMatch(heads.get(two, 'hit', 'no-cache').headerText, /x-a-/)
})

t.test('with position headers off none are sent, and common headers are still built once', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new CommonHeaderCache(tracker, [])
  const position = positionAt(1n)
  tracker.learn(position, 'x-a-')
  const first = heads.get(position, 'hit', undefined)
  t.notMatch(first.headerText, /chain-id/)
  t.equal(heads.get(position, 'hit', undefined), first)
})

t.test('no position is sent until one is known', async t => {
  const tracker = new Tracker(4, () => 0)
  const heads = new CommonHeaderCache(tracker, ['node', 'upstream'])
  t.notMatch(heads.get(undefined, 'hit', undefined).headerText, /chain-id/)
  const position = positionAt(1n)
  tracker.learn(position, 'x-a-')
  t.match(heads.get(position, 'hit', undefined).headerText, /X-NODE-CHAIN-ID: 4\r\n[^]*x-a-chain-id: 4\r\n/)
})
