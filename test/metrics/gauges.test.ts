import t from 'tap'
import { upstreamStates } from '../../src/upstreams/upstream.js'
import { startSandboxNode } from '../support/replicas.js'
import { scrape } from '../support/scrape.js'
import { startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'

/** Returns the state of each upstream: the only one at 1, if all others are at 0. */
async function statesOf (varve: TestVarve): Promise<Record<string, string>> {
  const series = (await scrape(varve.adminUrl)).get('varve_upstream_state')?.series ?? []
  const names = [...new Set(series.map(({ labels }) => labels['upstream'] ?? ''))]
  return Object.fromEntries(names.map(name => {
    const own = series.filter(({ labels }) => labels['upstream'] === name)
    const is = own.filter(({ value }) => value === 1).map(({ labels }) => labels['state'])
    return [
      name,
      own.length === upstreamStates.length && own.every(({ value }) => value === 0 || value === 1)
        ? is.join()
        : 'not one of all'
    ]
  }))
}

t.test('each upstream has exactly one state, in the words of /status.json', async t => {
  const [first, second] = [await startSandboxNode(t), await startSandboxNode(t)]
  const otherChain = await startSandboxNode(t, { chainId: 9 })
  const upstreams = [{ name: 'healthy', url: first.url }, { name: 'busy', url: second.url }, {
    name: 'other_chain',
    url: otherChain.url
  }, { name: 'gone', url: 'http://127.0.0.1:9' }] as never
  const varve = await varveAt(t, '', { upstreams, head: { pollMs: 100 } })
  await until(
    async () => (await statesOf(varve))['gone'] === 'down' && (await statesOf(varve))['other_chain'] === 'quarantined',
    'every upstream was polled'
  )
  t.same(await statesOf(varve), { healthy: 'up', busy: 'up', other_chain: 'quarantined', gone: 'down' })
  second.faults.add({ kind: 'rateLimited', retryAfter: '60' })
  await until(async () => (await statesOf(varve))['busy'] === 'backing_off', 'upstream busy is backing off')
  t.equal((await statesOf(varve))['healthy'], 'up')
})

t.test('an upstream that has not responded yet is unknown and has no version', async t => {
  const silent = await startStubUpstream(t, () => {}, () => {})
  const varve = await varveAt(t, silent.url, { upstream: { timeoutMs: 60_000 } })
  t.same(await statesOf(varve), { node: 'unknown' })
  t.ok(Number.isNaN(await varve.metric('varve_upstream_version{upstream="node"}')))
})

t.test('gauges show the limits of upstreams and memory beside their use', async t => {
  const sandbox = await startSandboxNode(t)
  const varve = await varveAt(t, sandbox.url, { upstream: { maxConcurrent: 33 }, cache: { memory: { maxMb: 3 } } })
  t.equal((await varve.get('/v1/info')).status, 200)
  t.equal(await varve.metric('varve_upstream_version{upstream="node"}'), Number(sandbox.ledger.head.version))
  t.equal(await varve.metric('varve_upstream_max_concurrent{upstream="node"}'), 33)
  t.equal(await varve.metric('varve_upstream_in_flight{upstream="node"}'), 0)
  t.equal(await varve.metric('varve_cache_max_bytes{tier="memory"}'), 3 * 1024 * 1024)
  t.match((await scrape(varve.adminUrl)).get('varve_build_info')?.series, [{
    labels: { version: /^\d+\.\d+\.\d+/ },
    value: 1
  }])
})
