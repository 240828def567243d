import t from 'tap'
import { type Anchor } from '../../src/chain/anchors.js'
import { readPosition } from '../../src/api/position.js'
import { chainReaderOf } from '../../src/chain/chain-verifier.js'
import { Quarantine } from '../../src/chain/quarantine.js'
import { type Upstream } from '../../src/upstreams/upstream.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { startSandbox } from '#sandbox'
import { stamps } from '../support/stub-upstream.js'
import { stampedAt } from '../support/tail.js'
import { sameChain, upstreamAt } from '../support/upstream.js'

const hash = `0x${'aB'.repeat(32)}`
const block = {
  block_height: '7',
  block_hash: hash,
  block_timestamp: '5',
  first_version: '90',
  last_version: '99',
  transactions: null
}

async function readOf (
  status: number,
  body: string | Buffer,
  headers: Record<string, string> = stamps()
): Promise<Anchor | undefined> {
  return await chainReaderOf({
    send: async () => ({
      status,
      headers,
      body: Buffer.from(body),
      rest: undefined,
      isFramed: true,
      stamped: readPosition(headers),
      release: undefined
    })
  }).readBlock(7n)
}

t.test('a final block is fetched by height without transactions, and gives an anchor', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  const upstream = upstreamAt(t, sandbox.url, { timeoutMs: 5000, maxBufferedBytes: 1e6, now: () => 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  const requests: UpstreamRequest[] = []
  const read = async (height: number): Promise<Anchor | undefined> =>
    await chainReaderOf({
      send: async request => {
        requests.push(request)
        return await upstream.send(request)
      }
    }).readBlock(BigInt(height))
  t.same(await read(998), { height: 998n, hash: sandbox.ledger.block(998).hash })
  t.match(requests, [{ method: 'GET', target: '/v1/blocks/by_height/998', headers: { accept: 'application/json' } }])
  t.equal(await read(999), undefined, 'the newest block may still change')
  sandbox.ledger.grow(1)
  t.same(await read(999), { height: 999n, hash: sandbox.ledger.block(999).hash })
  t.equal(await read(99), undefined, 'pruned')
  t.equal(await read(5000), undefined, 'not there yet')
  sandbox.faults.add({ kind: 'reset' })
  await t.rejects(read(998), { message: 'n: truncated' }, 'an upstream that is down is an error')
})

t.test('only a complete final block of the requested height, with a position, gives an anchor', async t => {
  t.same(await readOf(200, JSON.stringify(block)), { height: 7n, hash: hash.toLowerCase() })
  const others: [string, number, string, Record<string, string>?][] = [
    ['another status', 404, JSON.stringify(block)],
    ['another height', 200, JSON.stringify({ ...block, block_height: '8' })],
    ['a height as a number', 200, JSON.stringify({ ...block, block_height: 7 })],
    ['no hash', 200, JSON.stringify({ ...block, block_hash: null })],
    ['a short hash', 200, JSON.stringify({ ...block, block_hash: '0xab' })],
    ['no last version', 200, JSON.stringify({ ...block, last_version: 99 })],
    ['a last version that is none', 200, JSON.stringify({ ...block, last_version: 'x' })],
    ['a last version below nothing', 200, JSON.stringify({ ...block, last_version: '-1' })],
    ['a last version in another notation', 200, JSON.stringify({ ...block, last_version: '0x5' })],
    ['a last version beyond u64', 200, JSON.stringify({ ...block, last_version: '9'.repeat(25) })],
    ['a last version at the head', 200, JSON.stringify({ ...block, last_version: '1000' })],
    ['no JSON', 200, '<html>'],
    ['null', 200, 'null']
  ]
  for (const [what, status, body, headers] of others) t.equal(await readOf(status, body, headers), undefined, what)
})

t.test('an error status or a response without a position is an error, not a missing anchor', async t => {
  for (const status of [429, 500, 503]) {
    await t.rejects(readOf(status, '{}'), { message: 'the upstream: invalid_response' })
  }
  await t.rejects(
    readOf(200, JSON.stringify(block), {}),
    { message: 'the upstream: invalid_response' },
    'a response without a position, as from a gateway'
  )
  await t.rejects(readOf(301, '', {}), { message: 'the upstream: invalid_response' })
})

t.test('a block too large to buffer is dropped and gives no anchor', async t => {
  const sandbox = await startSandbox({ blockMs: 0 })
  const upstream = upstreamAt(t, sandbox.url, { timeoutMs: 5000, maxBufferedBytes: 20, now: () => 0 })
  t.teardown(async () => {
    await sandbox.close()
  })
  let isCancelled = false
  t.equal(
    await chainReaderOf({
      send: async request => {
        const response = await upstream.send(request)
        const { rest } = response
        if (rest === undefined) throw new Error('it was gathered')
        return {
          ...response,
          rest: {
            [Symbol.asyncIterator]: () => rest[Symbol.asyncIterator](),
            destroy: () => {
              rest.destroy()
              isCancelled = true
            }
          }
        }
      }
    }).readBlock(998n),
    undefined
  )
  t.ok(isCancelled)
})

t.test('a last version with millions of digits is rejected in linear time', async t => {
  const body = JSON.stringify({ ...block, last_version: '9'.repeat(8_000_000) })
  const began = process.cpuUsage()
  t.equal(await readOf(200, body), undefined)
  t.ok(process.cpuUsage(began).user < 1_000_000, 'it takes less than a second of the processor')
})

t.test('a read that has shown our chain stands in for one routine check of its upstream', async t => {
  let [nowMs, checks] = [0, 0]
  const isSameChain = async (): Promise<boolean> => ++checks > 0
  const guard = new Quarantine({} as unknown as Upstream, { ...sameChain, isSameChain }, () => nowMs)
  await guard.verify(stampedAt(1), 0)
  const checksAt = async (atMs: number): Promise<number> => {
    nowMs = atMs
    await guard.reverifyIfDue(stampedAt(1))
    return checks
  }
  t.equal(await checksAt(9000), 0)
  guard.recordSameChain()
  t.equal(await checksAt(18_000), 0)
  t.equal(await checksAt(19_000), 1)
  t.ok(guard.isVerified)
})
