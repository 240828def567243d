import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type InspectResponse } from '../../src/upstreams/monitored-attempts.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { Quarantine } from '../../src/chain/quarantine.js'
import { Upstream } from '../../src/upstreams/upstream.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamRequirements } from '../../src/upstreams/ranking.js'
import { startIdleMeter } from '../support/idle-meter.js'
import { respondOk, stamps, type StubUpstream, startStubUpstream } from '../support/stub-upstream.js'

const upstreamRequest: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const timeoutMs = 400

type Script = (response: ServerResponse, request: IncomingMessage) => void

interface TestPool {
  readonly pool: UpstreamPool
  readonly upstreams: readonly Upstream[]
  readonly stubs: readonly StubUpstream[]
  /** Requests to each upstream. */
  requestCounts(): number[]
}

/** Creates an upstream per script, in configuration order; by default the first ranks first. */
async function startPool (
  t: Test,
  scripts: Script[],
  quarantineReasonOf: (name: string) => string | undefined = () => undefined,
  maxConcurrent = 8
): Promise<TestPool> {
  const stubs = await Promise.all(scripts.map(async script =>
    await startStubUpstream(t, (request, response) => {
      script(response, request)
    })
  ))
  const upstreams = stubs.map(({ url }, at) => {
    const client = new UpstreamClient({
      name: `n${at + 1}`,
      url,
      headers: {},
      timeoutMs,
      maxConcurrent,
      caFile: null,
      maxBufferedBytes: 10_000,
      now: () => performance.now()
    }, { fetched: () => {} })
    t.teardown(async () => {
      await client.close()
    })
    const now = (): number => performance.now()
    const verification = {
      verifyChain: async () => quarantineReasonOf(client.name),
      isOffChain: () => false,
      isSameChain: async () => true,
      hasPeers: () => scripts.length > 1
    }
    return new Upstream(client, new Quarantine(client, verification, now), now)
  })
  const pool = new UpstreamPool({
    wallClockMs: () => Date.now(),
    onOldest: () => {},
    onAllQuarantined: async () => {}
  })
  pool.replaceUpstreams(upstreams, undefined)
  return {
    pool,
    upstreams,
    stubs,
    requestCounts: () => stubs.map(({ requests }) => requests.length)
  }
}

const respondWith = (body: string, headers: Record<string, string> = {}): Script => response => {
  respondOk(response, body, headers)
}
const respondStatus = (status: number, headers: Record<string, string> = {}): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...stamps(), ...headers }).end(
    `{"status":${status}}`
  )
}
const breaks: Script = response => {
  response.destroy()
}
const hang: Script = () => {}
const fine: InspectResponse = () => ({ flaw: undefined })

async function fetchText (
  { pool }: TestPool,
  route: Partial<UpstreamRequirements> = {},
  inspect: InspectResponse = fine
): Promise<string> {
  try {
    const { response: { status, body } } = await pool.fetch(upstreamRequest, { ...anything, ...route }, inspect)
    return `${status} ${body.toString()}`
  } catch (error) {
    return (error as Error).message
  }
}

t.test('a 4xx other than 429 is final', async t => {
  for (const status of [400, 403, 404, 410, 413]) {
    const testPool = await startPool(t, [respondStatus(status), respondWith('["second"]')])
    t.equal(await fetchText(testPool), `${status} {"status":${status}}`)
    t.same(testPool.requestCounts(), [1, 0])
  }
})

t.test('a 5xx or 429 is not used while another upstream only lacks a free slot, but a 404 is', async t => {
  for (
    const [fallback, expected] of [[respondStatus(500), /n1: no_slot/], [respondStatus(429), /n1: no_slot/], [
      respondStatus(404),
      /^404 /
    ]] as const
  ) {
    const testPool = await startPool(t, [hang, fallback], undefined, 1)
    // One request in flight and seven queued leave no slot for another.
    const taken = Promise.allSettled(
      Array.from({ length: 8 }, async () => await testPool.upstreams[0]?.client.fetch(upstreamRequest))
    )
    t.match(await fetchText(testPool), expected)
    await testPool.upstreams[0]?.client.close()
    await taken
  }
})

t.test('while another candidate is left, a hanging upstream gets half of its timeout', async t => {
  const testPool = await startPool(t, [hang, respondWith('[]')])
  const began = performance.now()
  const waited = startIdleMeter()
  t.equal(await fetchText(testPool), '200 []')
  const [took, idle] = [performance.now() - began, waited()]
  t.ok(took >= timeoutMs / 2 - 5 && idle < timeoutMs - 20, `${took} ms, ${idle} of them idle`)
  const alone = await startPool(t, [hang])
  const start = performance.now()
  await fetchText(alone)
  t.ok(performance.now() - start >= timeoutMs - 5)
})

t.test('an unverified upstream\'s response without a position is not used if there are others', async t => {
  const unstamped: Script = response => {
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"error_code":"table_item_not_found"}')
  }
  const testPool = await startPool(t, [unstamped, respondWith('["ours"]')])
  t.equal(await fetchText(testPool), '200 ["ours"]')
  t.same(testPool.requestCounts(), [1, 1])
  t.match(await fetchText(await startPool(t, [unstamped, breaks])), /truncated|invalid_response/)
  t.match(
    await fetchText(await startPool(t, [unstamped])),
    /^404/,
    'a single upstream has no other to be confused with'
  )
})
