import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { sendRequest } from '../support/client.js'
import { respondOk, stamps, startStubUpstream } from '../support/stub-upstream.js'
import { until } from '../support/until.js'
import { type TestVarve, varveAt } from '../support/varve.js'
import { together } from '../support/together.js'

// Waits for a quarantine to end, which takes some seconds without work.
t.jobs = 3
const modules = (nth: number): string => `/v1/accounts/0x${nth.toString(16)}/modules?ledger_version=400`

/** Starts one address in front of two chains with one chain id; `choose` picks the chain of the nth response. */
async function startTwoChains (
  t: Test,
  choose: (nth: number) => 'old' | 'new',
  counts = { responses: 0 }
): Promise<{ url: string, counts: { responses: number } }> {
  const next = (): Record<string, string> => {
    const version = (choose(++counts.responses) === 'old' ? 1000 : 500) + counts.responses
    return stamps({
      'x-aptos-ledger-version': String(version),
      'x-aptos-ledger-timestampusec': String(1_000_000 + counts.responses),
      'x-aptos-block-height': String(version)
    })
  }
  const { url } = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', next())
  }, (_request, response) => {
    respondOk(response, '{"git_hash":"aaaa"}', next())
  })
  return { url, counts }
}

async function statusOf (
  { adminUrl }: TestVarve
): Promise<{ level: string, upstreams: Array<Record<string, unknown>> }> {
  return JSON.parse((await sendRequest(adminUrl, '/status.json')).body)
}

const alternations = new Map<string, (nth: number) => 'old' | 'new'>([
  ['with every response', nth => nth % 2 === 0 ? 'old' : 'new'],
  ['with every second response', nth => nth % 4 < 2 ? 'old' : 'new'],
  ['at random', () => Math.random() < 0.5 ? 'old' : 'new']
])

for (const [when, alternate] of alternations) {
  t.test(`an upstream that changes its chain ${when} is quarantined, not followed`, together(), async t => {
    let choose = alternate
    const { url, counts } = await startTwoChains(t, nth => choose(nth))
    const varve = await varveAt(t, url, { head: { pollMs: 1000 } })
    let [most, nth, refusals] = [0, 0, 0]
    let refused = ''
    while (refusals < 300 && nth < 5000) {
      const before = counts.responses
      const { status, body } = await varve.get(modules(++nth))
      most = Math.max(most, counts.responses - before)
      if (status === 200) continue
      refusals++
      refused = body
    }
    t.ok(most <= 8, `${most} upstream requests for a client request`)
    t.ok((await varve.metric('varve_chain_resets_total') ?? 0) <= 5, 'resets')
    t.match(refused, /"message":"[^"]*node: it contradicts itself/)
    const { level, upstreams } = await statusOf(varve)
    t.match([level, upstreams], ['red', [{ name: 'node', state: 'quarantined', reason: /contradicts itself/ }]])
    t.match((await sendRequest(varve.adminUrl, '/readyz')).body, /"node is quarantined: it contradicts itself/)
    choose = () => 'new'
    await until(async () => (await varve.get(modules(++nth))).status === 200, 'a read succeeds again', 30_000)
    for (let more = 0; more < 20; more++) t.equal((await varve.get(modules(++nth))).status, 200)
    t.match((await statusOf(varve)).upstreams, [{ state: 'up', reason: undefined }])
    t.ok((await varve.metric('varve_chain_resets_total') ?? 0) <= 5, 'resets')
  })
}

t.test('many clients at once cost an upstream that contradicts itself no more requests', together(), async t => {
  const { url, counts } = await startTwoChains(t, nth => nth % 2 === 0 ? 'old' : 'new')
  const varve = await varveAt(t, url)
  let clients = 0
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 30 }, async () => await varve.get(modules(++clients))))
  }
  t.ok(counts.responses <= 2 * clients, `${counts.responses} upstream requests for ${clients} client requests`)
  t.ok((await varve.metric('varve_chain_resets_total') ?? 0) <= 5)
})

t.test('beside an upstream that contradicts itself another one serves, without a reset', together(), async t => {
  const steady = await startTwoChains(t, () => 'old')
  const other = await startTwoChains(t, () => Math.random() < 0.5 ? 'old' : 'new', steady.counts)
  const upstreams = [{ name: 'n1', url: steady.url }, { name: 'n2', url: other.url }]
  const varve = await varveAt(t, '', { upstreams: upstreams as never, head: { pollMs: 200 } })
  const before = steady.counts.responses
  for (let nth = 1; nth <= 400; nth++) t.equal((await varve.get(modules(nth))).status, 200)
  t.ok(steady.counts.responses - before <= 800)
  await until(
    async () => (await statusOf(varve)).upstreams.some(({ name, state }) => name === 'n2' && state === 'quarantined'),
    'it is quarantined'
  )
  t.equal(await varve.metric('varve_chain_resets_total'), 0)
})

t.test('chain resets are followed five times a minute at most; then reads get 503', together(), async t => {
  let era = 0
  const now = (): Record<string, string> =>
    stamps({
      'x-aptos-ledger-version': String(1000 - era),
      'x-aptos-ledger-timestampusec': String(1_000_000 + era),
      'x-aptos-block-height': '100'
    })
  const { url } = await startStubUpstream(t, (_request, response) => {
    respondOk(response, '[]', now())
  }, (_request, response) => {
    respondOk(response, '{"git_hash":"aaaa"}', now())
  })
  const varve = await varveAt(t, url)
  t.equal((await varve.get(modules(1))).status, 200)
  const statuses: number[] = []
  let body = ''
  for (let reset = 1; reset <= 6; reset++) {
    // Leaves more time between two resets than an upstream that contradicts itself does.
    await pause(2600)
    era++
    const response = await varve.get(modules(era + 1))
    statuses.push(response.status)
    body = response.body
  }
  t.same(statuses, [200, 200, 200, 200, 200, 503])
  t.match(body, /chain changed five times within a minute/)
  t.equal(await varve.metric('varve_chain_resets_total'), 5)
})
