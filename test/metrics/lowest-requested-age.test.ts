import t, { type Test } from 'tap'
import { tableItemLookup } from '../support/client.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

const modules = (version: number): string => `/v1/accounts/0x1/modules?ledger_version=${version}`
const oldest = async (varve: TestVarve): Promise<number | undefined> =>
  await varve.metric('varve_lowest_requested_version')

/** Starts varve with an upstream whose window, 10 to 1000 at first, the test moves. */
async function windowed (
  t: Test,
  change: Parameters<typeof varveAt>[2] = {}
): Promise<{ varve: TestVarve, moveTo: (change: Record<string, string>) => void }> {
  let moved: Record<string, string> = {}
  const stub = await startStubUpstream(t, (request, response) => {
    request.resume()
    respondOk(response, '[]', stamps(moved))
  }, (_request, response) => {
    respondOk(response, '{}', stamps(moved))
  })
  return {
    varve: await varveAt(t, stub.url, change),
    moveTo: next => {
      moved = next
    }
  }
}

t.test('every accepted read of a version, hit or not, counts towards the oldest version requested', async t => {
  const { varve, moveTo } = await windowed(t)
  t.equal(await oldest(varve), 1000, 'no read is older than the head')
  for (
    const target of [
      '/v1/accounts/0x1/modules',
      '/v1/info',
      '/v1/accounts/0x1/events/0x1::a::B/c?start=1&limit=1',
      '/v1/spec.json',
      modules(1000),
      modules(9)
    ]
  ) {
    await varve.get(target)
    t.equal(await oldest(varve), 1000, target)
  }
  await varve.get(modules(900))
  t.equal(await oldest(varve), 900)
  await varve.get('/v1/tables/0x5eed/item?ledger_version=800', tableItemLookup('u64', '"1"'))
  t.equal(await oldest(varve), 800)
  await varve.get('/v1/blocks/by_version/700')
  t.equal(await oldest(varve), 700, 'a block by its version')
  await varve.get('/v1/accounts/0x1/resources?ledger_version=600')
  t.equal(await oldest(varve), 600, 'a forwarded read')
  await varve.get('/v1/transactions', { method: 'POST', body: '{}' })
  await varve.get('/v1/accounts/xyz/modules?ledger_version=50')
  t.equal(await oldest(varve), 600, 'a rejected read does not count')
  moveTo({ 'x-aptos-ledger-oldest-version': '650', 'x-aptos-oldest-block-height': '65' })
  await varve.get('/v1/spec.json')
  t.equal(await oldest(varve), 650, 'the window has moved past it')
})

t.test('the oldest version requested ignores reads from before a position is known', async t => {
  let isAwake = false
  const stub = await startStubUpstream(t, (_request, response) => respondOk(response, '[]'), (_request, response) => {
    if (isAwake) respondOk(response, '{}')
    else response.writeHead(500).end()
  })
  const varve = await varveAt(t, stub.url, { head: { pollMs: 50 } })
  t.ok(Number.isNaN(await oldest(varve)))
  t.equal((await varve.get(modules(3))).status, 503)
  isAwake = true
  await until(async () => await varve.metric('varve_ledger_version') === 1000, 'the position is known')
  t.equal(await oldest(varve), 1000, 'no read within the window')
})

t.test('after a chain reset, versions of the previous chain no longer count', async t => {
  const { varve, moveTo } = await windowed(t)
  await varve.get(modules(300))
  t.equal(await oldest(varve), 300)
  moveTo({ 'x-aptos-ledger-version': '900', 'x-aptos-ledger-timestampusec': '2000000' })
  await varve.get('/v1/spec.json')
  t.equal(await varve.metric('varve_chain_resets_total'), 1)
  t.equal(await oldest(varve), 900)
})
