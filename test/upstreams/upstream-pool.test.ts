import { once } from 'node:events'
import { type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { respondOk, respondToIndex, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type ConfigChange, varveAt } from '../support/varve.js'

type Script = (response: ServerResponse) => void

/** An upstream of a test: what it responds to reads, to polls, its position headers and its settings. */
interface Scripted {
  read: Script
  readonly index?: Script
  readonly settings?: object
}

const respondWith = (body: string, headers: Record<string, string> = {}): Script => response => {
  respondOk(response, body, headers)
}
const hang: Script = () => {}
const respondStatus = (status: number, headers: Record<string, string> = stamps()): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(`{"status":${status}}`)
}
const late = (ms: number, script: Script): Script => response => {
  setTimeout(script, ms, response)
}
const shortIndex = respondWith('{}', stamps({ 'x-aptos-ledger-oldest-version': '600' }))
const modules = (version = 500, address = '0x1'): string => `/v1/accounts/${address}/modules?ledger_version=${version}`
const first = respondWith('["first"]')
const second = respondWith('["second"]')

/** Starts varve in front of upstreams that it has polled; by their weights the first ranks first. */
async function startPool (t: Test, upstreams: readonly Scripted[], change: ConfigChange = {}) {
  const stubs = await Promise.all(upstreams.map(async upstream =>
    await startStubUpstream(t, (request, response) => {
      request.resume()
      upstream.read(response)
    }, (request, response) => {
      if (upstream.index === undefined) respondToIndex(request, response)
      else upstream.index(response)
    })
  ))
  const varve = await varveAt(t, '', {
    upstreams: stubs.map(({ url }, at) => ({
      name: `n${at + 1}`,
      url,
      timeoutMs: 3000,
      // Many reads in flight and a slow poll count less than a weight.
      weight: (upstreams.length > 2 ? [1000, 30, 1] : [1000, 1])[at],
      ...upstreams[at]?.settings
    })) as never,
    hedge: { afterMs: 50 },
    ...change
  })
  const readyz = async (): Promise<string> => (await sendRequest(varve.adminUrl, '/readyz')).body
  await until(async () => !(await readyz()).includes('has not responded yet'), 'every upstream was polled')
  const valueOf = async (series: string): Promise<number> => await varve.metric(series) ?? 0
  return {
    get: async (target = modules()) => {
      const { status, body } = await varve.get(target)
      return `${status} ${body}`
    },
    /** Returns the requests of each upstream since the last call. */
    takeRequestCounts: () => stubs.map(({ requests }) => requests.splice(0).length),
    hedges: async (): Promise<Record<string, number>> => ({
      won: await valueOf('varve_hedges_total{result="won"}'),
      lost: await valueOf('varve_hedges_total{result="lost"}'),
      failed: await valueOf('varve_hedges_total{result="failed"}')
    }),
    stateOf: async (name: string): Promise<string> => {
      const { upstreams: all } = JSON.parse((await sendRequest(varve.adminUrl, '/status.json')).body) as {
        upstreams: Array<{ name: string, state: string }>
      }
      return all.find(upstream => upstream.name === name)?.state ?? 'none'
    },
    valueOf
  }
}

t.test('a read costs eight upstream requests at most, however many upstreams fail', async t => {
  const pool = await startPool(t, Array.from({ length: 12 }, () => ({ read: respondStatus(503) })))
  t.match(await pool.get(), /^503/)
  t.equal(pool.takeRequestCounts().reduce((sum, count) => sum + count, 0), 8)
})

t.test('reads that an upstream has switched off go to another, without a mark on its health', async t => {
  const disabled: Script = response => {
    response.writeHead(403, { 'content-type': 'application/json' }).end('{"error_code":"api_disabled"}')
  }
  const upstreams = [{ read: disabled }, { read: second }]
  const pool = await startPool(t, upstreams)
  for (const counts of [[1, 1], [0, 1]]) {
    t.equal(await pool.get(modules(500 + (counts[0] ?? 0))), '200 ["second"]')
    t.same(pool.takeRequestCounts(), counts)
  }
  t.equal(await pool.get('/v1/accounts/0x1?ledger_version=500'), '200 ["second"]', 'other reads are tried')
  t.same(pool.takeRequestCounts(), [1, 1])
  t.equal(await pool.stateOf('n1'), 'up')
  for (const upstream of upstreams) upstream.read = disabled
  const numbers = [await pool.get(modules(502)), await pool.get(modules(503))].map(text => text.slice(0, 3))
  t.same([numbers, pool.takeRequestCounts()], [['403', '403'], [1, 1]], 'one is asked where none serves them')
})

t.test('summaries that an index has not reached yet are asked of another upstream', async t => {
  const pool = await startPool(t, [{ read: respondStatus(500) }, { read: second }])
  for (let nth = 0; nth < 6; nth++) {
    const target = `/v1/accounts/0x1/transaction_summaries?start_version=${500 + nth}`
    t.equal(await pool.get(target), '200 ["second"]')
  }
  t.same(pool.takeRequestCounts(), [1, 6])
  t.equal(await pool.stateOf('n1'), 'up')
})

t.test('a slow read is hedged once with another upstream, and the first good response is used', async t => {
  const cases: Array<[why: string, reads: Script[], body: string, requests: number[], hedges: object]> = [
    ['the first hangs', [hang, second], '200 ["second"]', [1, 1], { won: 1 }],
    ['the second hangs', [late(300, first), hang], '200 ["first"]', [1, 1], { lost: 1 }],
    ['the first is fast', [first, hang], '200 ["first"]', [1, 0], {}],
    ['a fault does not win', [late(300, first), respondStatus(503)], '200 ["first"]', [1, 1], { lost: 1 }],
    ['nor does a late one', [late(300, respondStatus(503)), late(400, second)], '200 ["second"]', [1, 1], { won: 1 }],
    [
      'a third is asked after two faults',
      [late(300, respondStatus(503)), respondStatus(503), respondWith('["third"]')],
      '200 ["third"]',
      [1, 1, 1],
      { failed: 1 }
    ]
  ]
  for (const [why, reads, body, requests, hedges] of cases) {
    const pool = await startPool(t, reads.map(read => ({ read })))
    t.equal(await pool.get(), body, why)
    t.same(pool.takeRequestCounts(), requests, why)
    t.same(await pool.hedges(), { won: 0, lost: 0, failed: 0, ...hedges }, why)
  }
})

t.test('the losing read of a hedge is cancelled, its slot is free and its upstream healthy', async t => {
  let closed: Promise<unknown> | undefined
  const pool = await startPool(t, [{
    read: response => {
      closed = once(response, 'close')
    }
  }, { read: second }])
  t.equal(await pool.get(), '200 ["second"]')
  await closed
  await until(async () => await pool.valueOf('varve_upstream_in_flight{upstream="n1"}') === 0, 'the slot is free')
  t.equal(await pool.stateOf('n1'), 'up')
})

t.test('of two responses at the same time one is used, and the other holds no slot', async t => {
  const pending: ServerResponse[] = []
  const read: Script = response => {
    pending.push(response)
    if (pending.length < 2) return
    for (const each of pending.splice(0)) respondOk(each, 'x'.repeat(2_000_000))
  }
  const pool = await startPool(t, [{ read }, { read }], { cache: { maxEntryMb: 1 } })
  for (let nth = 0; nth < 5; nth++) t.match(await pool.get(modules(500 + nth)), /^200 x/)
  for (const name of ['n1', 'n2']) {
    const held = `varve_upstream_in_flight{upstream="${name}"}`
    await until(async () => await pool.valueOf(held) === 0, `${name} holds no slot`)
  }
})

t.test('a hedge goes only to an upstream that is up and whose response cannot be worse', async t => {
  const events = '/v1/accounts/0x1/events/0x1::a::A/b?start=0&limit=5'
  const indexWith = (headers: Record<string, string>): Script => respondWith('{}', stamps(headers))
  const cases: Array<[why: string, second: Partial<Scripted>, target?: string]> = [
    ['without the version', { index: shortIndex }],
    ['behind the served head', {
      index: indexWith({ 'x-aptos-ledger-version': '900', 'x-aptos-ledger-timestampusec': '900000' })
    }, '/v1/accounts/0x1/modules'],
    ['with a shorter history', { index: indexWith({ 'x-aptos-ledger-oldest-version': '20' }) }, events],
    ['down', { index: response => response.destroy() }],
    ['backing off', { index: respondStatus(429, { 'retry-after': '60' }) }],
    ['a backup', { settings: { priority: 1 } }]
  ]
  for (const [why, change, target] of cases) {
    const pool = await startPool(t, [{ read: late(200, first) }, { read: second, ...change }])
    t.equal(await pool.get(target), '200 ["first"]', why)
    t.same(pool.takeRequestCounts(), [1, 0], why)
  }
})

t.test('a busy upstream is neither hedged nor used as a hedge', async t => {
  for (const busy of ['n1', 'n2']) {
    // Only the busy one has version 500, which it holds back.
    const waiting: ServerResponse[] = []
    const [one, two]: Scripted[] = ['n1', 'n2'].map(name => ({
      read: response => {
        waiting.push(response)
      },
      settings: { maxConcurrent: 4 },
      ...(name !== busy && { index: shortIndex })
    }))
    if (one === undefined || two === undefined) throw new Error('expected two upstreams')
    const pool = await startPool(t, [one, two])
    const held = [pool.get(modules(500)), pool.get(modules(501))]
    await until(() => waiting.length === 2, 'two are held')
    one.read = late(200, first)
    two.read = second
    pool.takeRequestCounts()
    t.equal(await pool.get(modules(700)), '200 ["first"]', busy)
    t.same(pool.takeRequestCounts(), [1, 0], busy)
    waiting.forEach(second)
    await Promise.all(held)
  }
})

t.test('hedges stay within ten and their share of reads, and a hanging read gets new budget', async t => {
  const slow: Scripted = { read: hang, settings: { maxConcurrent: 64 } }
  const pool = await startPool(t, [slow, { read: second, settings: { maxConcurrent: 64 } }], {
    hedge: { share: 0.05, afterMs: 50 }
  })
  const reads = Array.from({ length: 11 }, async (_, nth) => await pool.get(modules(500 + nth)))
  await until(async () => (await pool.hedges())['won'] === 10, 'ten are hedged')
  slow.read = first
  t.same(pool.takeRequestCounts(), [11, 10], 'the eleventh is not')
  for (let nth = 0; nth < 20; nth++) t.equal(await pool.get(modules(600 + nth)), '200 ["first"]')
  t.same(await Promise.all(reads), reads.map(() => '200 ["second"]'), 'twenty reads pay for a hedge')
})

t.test('a read slower than 95 % of its upstream\'s reads is hedged, once fifty are measured', async t => {
  const slow: Scripted = { read: first }
  const pool = await startPool(t, [slow, { read: second }], { hedge: { afterMs: 60_000 } })
  for (let nth = 0; nth < 50; nth++) await pool.get(modules(500 + nth))
  slow.read = hang
  t.equal(await pool.get(modules(600)), '200 ["second"]')
})

t.test('a forwarded request is never hedged', async t => {
  const pool = await startPool(t, [{ read: late(200, first) }, { read: second }])
  t.equal(await pool.get('/v1/unknown'), '200 ["first"]')
  t.same(pool.takeRequestCounts(), [1, 0])
})

t.test('a 4xx other than 429 is final', async t => {
  for (const status of [400, 403, 404, 413]) {
    const pool = await startPool(t, [{ read: respondStatus(status) }, { read: second }])
    t.match(await pool.get(), new RegExp(`^${status} `))
    t.same(pool.takeRequestCounts(), [1, 0])
  }
})

t.test('a 5xx or 429 is not used while another upstream only lacks a free slot, but a 404 is', async t => {
  const settings = { maxConcurrent: 1, timeoutMs: 1000 }
  await Promise.all(([[500, /^503 /], [429, /^503 /], [404, /^404 /]] as const).map(async ([fallback, expected]) => {
    const pool = await startPool(
      t,
      [{ read: hang, settings }, { read: respondStatus(fallback), index: shortIndex }],
      { hedge: { share: 0 } }
    )
    // One request in flight and seven queued leave no slot for another.
    const held = Array.from({ length: 8 }, async (_, nth) => await pool.get(modules(500 + nth)))
    await until(async () => await pool.valueOf('varve_upstream_waiting{upstream="n1"}') === 7, 'the queue is full')
    t.match(await pool.get(modules(600)), expected)
    await Promise.all(held)
  }))
})

t.test('an unverified upstream\'s response without a position is not used if there are others', async t => {
  const unstamped = respondStatus(404, {})
  const pool = await startPool(t, [{ read: unstamped, index: unstamped }, { read: respondStatus(503) }])
  t.match(await pool.get(), /^503 /)
  t.same(pool.takeRequestCounts().map(count => count > 0), [true, true])
})
