import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type InspectResponse } from '../../src/upstreams/attempt-runner.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { Upstream } from '../../src/upstreams/upstream.js'
import { UpstreamClient } from '../../src/upstreams/upstream-client.js'
import { type UpstreamRequest } from '../../src/upstreams/upstream-request.js'
import { type UpstreamRequirements } from '../../src/upstreams/ranking.js'
import { startIdleMeter } from '../support/idle-meter.js'
import { respondOk, stamps, type StubUpstream, startStubUpstream } from '../support/stub-upstream.js'

const question: UpstreamRequest = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: UpstreamRequirements = { version: undefined, minVersion: undefined, events: undefined }
const timeoutMs = 400

type Script = (response: ServerResponse, request: IncomingMessage) => void

interface Nodes {
  readonly fleet: UpstreamPool
  readonly members: readonly Upstream[]
  readonly stubs: readonly StubUpstream[]
  /** Requests to each upstream. */
  asked(): number[]
}

/** Creates an upstream per script, in configuration order; by default the first ranks first. */
async function fleetOf (
  t: Test,
  scripts: Script[],
  welcome: (name: string) => string | undefined = () => undefined,
  maxConcurrent = 8
): Promise<Nodes> {
  const stubs = await Promise.all(scripts.map(async script =>
    await startStubUpstream(t, (request, response) => {
      script(response, request)
    })
  ))
  const members = stubs.map(({ url }, at) => {
    const node = new UpstreamClient({
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
      await node.close()
    })
    return new Upstream(node, {
      verifyChain: async () => welcome(node.name),
      isOffChain: () => false,
      isSameChain: async () => true,
      hasPeers: () => scripts.length > 1
    }, () => performance.now())
  })
  const fleet = new UpstreamPool({
    wallClockMs: () => Date.now(),
    onOldest: () => {},
    onAllQuarantined: async () => {}
  })
  fleet.replaceUpstreams(members, undefined)
  return {
    fleet,
    members,
    stubs,
    asked: () => stubs.map(({ requests }) => requests.length)
  }
}

const answers = (body: string, headers: Record<string, string> = {}): Script => response => {
  respondOk(response, body, headers)
}
const says = (status: number, headers: Record<string, string> = {}): Script => response => {
  response.writeHead(status, { 'content-type': 'application/json', ...stamps(), ...headers }).end(
    `{"status":${status}}`
  )
}
const breaks: Script = response => {
  response.destroy()
}
const hangs: Script = () => {}
const fine: InspectResponse = () => undefined

async function asks (
  { fleet }: Nodes,
  route: Partial<UpstreamRequirements> = {},
  look: InspectResponse = fine
): Promise<string> {
  try {
    const { status, body } = await fleet.fetch(question, { ...anything, ...route }, look)
    return `${status} ${body.toString()}`
  } catch (error) {
    return (error as Error).message
  }
}

t.test('if an upstream fails before its response is complete, the next is tried, each once', async t => {
  const half: Script = response => {
    response.writeHead(200, { ...stamps(), 'content-length': '10' }).write('12345', () => {
      response.destroy()
    })
  }
  for (const failing of [breaks, hangs, half, says(500), says(502), says(503), says(504), says(429)]) {
    const nodes = await fleetOf(t, [failing, answers('["second"]')])
    t.equal(await asks(nodes), '200 ["second"]')
    t.same(nodes.asked(), [1, 1])
  }
})

t.test('a 4xx other than 429 is final', async t => {
  for (const status of [400, 403, 404, 410, 413]) {
    const nodes = await fleetOf(t, [says(status), answers('["second"]')])
    t.equal(await asks(nodes), `${status} {"status":${status}}`)
    t.same(nodes.asked(), [1, 0])
  }
})

t.test('an impossible response is never used, and another upstream is tried', async t => {
  const look: InspectResponse = ({ body }) => body.toString() === '["lie"]' ? 'impossible' : undefined
  const nodes = await fleetOf(t, [answers('["lie"]'), answers('["truth"]')])
  t.equal(await asks(nodes, {}, look), '200 ["truth"]')
  t.match(await asks(await fleetOf(t, [answers('["lie"]'), answers('["lie"]')]), {}, look), /every upstream/)
  t.equal(await asks(await fleetOf(t, [answers('["lie"]'), says(500)]), {}, look), '500 {"status":500}')
})

t.test('if all upstreams fail, the best real response is used: a 4xx, then a 429, then a 5xx', async t => {
  t.equal(await asks(await fleetOf(t, [says(503), says(429), breaks])), '429 {"status":429}')
  t.equal(await asks(await fleetOf(t, [says(500), says(503)])), '500 {"status":500}')
  t.equal(await asks(await fleetOf(t, [says(503), breaks, says(404)])), '404 {"status":404}')
  t.match(await asks(await fleetOf(t, [breaks, breaks])), /truncated/)
  t.match(await asks(await fleetOf(t, [])), /every upstream/)
})

t.test('a 5xx or 429 is not used while another upstream only lacks a free slot, but a 404 is', async t => {
  for (const [word, told] of [[says(500), /n1: no_slot/], [says(429), /n1: no_slot/], [says(404), /^404 /]] as const) {
    const nodes = await fleetOf(t, [hangs, word], undefined, 1)
    // One request in flight and seven queued leave no room for another.
    const taken = Promise.allSettled(
      Array.from({ length: 8 }, async () => await nodes.members[0]?.client.fetch(question))
    )
    t.match(await asks(nodes), told)
    await nodes.members[0]?.client.close()
    await taken
  }
})

t.test('while another candidate is left, a hanging upstream gets half of its timeout', async t => {
  const nodes = await fleetOf(t, [hangs, answers('[]')])
  const began = performance.now()
  const waited = startIdleMeter()
  t.equal(await asks(nodes), '200 []')
  const [took, idle] = [performance.now() - began, waited()]
  t.ok(took >= timeoutMs / 2 - 5 && idle < timeoutMs - 20, `${took} ms, ${idle} of them idle`)
  const alone = await fleetOf(t, [hangs])
  const start = performance.now()
  await asks(alone)
  t.ok(performance.now() - start >= timeoutMs - 5)
})

t.test('a 429 makes that upstream alone back off, for as long as Retry-After says', async t => {
  const nodes = await fleetOf(t, [says(429, { 'retry-after': '60' }), answers('["second"]')])
  for (let nth = 0; nth < 3; nth++) t.equal(await asks(nodes), '200 ["second"]')
  t.same(nodes.asked(), [1, 3])
})

t.test('after five failures an upstream is used only if no other is left, but still then', async t => {
  let isWell = true
  const second: Script = response => {
    if (isWell) respondOk(response, '["second"]')
    else response.destroy()
  }
  const nodes = await fleetOf(t, [breaks, second])
  // Successes take longer than failures, so without a circuit the first would rank first each time.
  for (let nth = 0; nth < 10; nth++) await asks(nodes)
  const [first = 0] = nodes.asked()
  t.ok(first <= 5, `${first} times`)
  isWell = false
  await asks(nodes)
  t.equal(nodes.asked()[0], first + 1)
})

t.test('an upstream on another chain gets no more reads, and its response is not used', async t => {
  const nodes = await fleetOf(
    t,
    [answers('["other"]'), answers('["ours"]')],
    name => name === 'n1' ? 'serves chain 9' : undefined
  )
  for (let nth = 0; nth < 3; nth++) t.equal(await asks(nodes), '200 ["ours"]')
  t.same(nodes.asked(), [1, 3])
  t.equal(nodes.members[0]?.quarantineReason, 'serves chain 9')
})

t.test('an unverified upstream\'s response without a position is not used if there are others', async t => {
  const unstamped: Script = response => {
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"error_code":"table_item_not_found"}')
  }
  const nodes = await fleetOf(t, [unstamped, answers('["ours"]')])
  t.equal(await asks(nodes), '200 ["ours"]')
  t.same(nodes.asked(), [1, 1])
  t.match(await asks(await fleetOf(t, [unstamped, breaks])), /truncated|invalid_response/)
  t.match(await asks(await fleetOf(t, [unstamped])), /^404/, 'a single upstream has no other to be confused with')
})

t.test('a forwarded request is retried only before its first byte, and only if idempotent', async t => {
  const nodes = await fleetOf(t, [breaks, answers('["second"]')])
  const passed = await nodes.fleet.forward(question, anything, fine, new AbortController().signal)
  t.equal(passed.status, 200)
  passed.rest?.destroy()
  const once = await fleetOf(t, [breaks, answers('["second"]')])
  await t.rejects(
    once.fleet.forward(
      { ...question, method: 'POST', isIdempotent: false, body: '{}' },
      anything,
      fine,
      new AbortController().signal
    )
  )
  t.same(once.asked(), [1, 0])
})
