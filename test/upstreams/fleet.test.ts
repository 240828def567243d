import { type IncomingMessage, type ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { type Look } from '../../src/upstreams/attempts.js'
import { Fleet } from '../../src/upstreams/fleet.js'
import { Member } from '../../src/upstreams/member.js'
import { LedgerNode } from '../../src/upstreams/node.js'
import { type Question } from '../../src/upstreams/question.js'
import { type Route } from '../../src/upstreams/route.js'
import { idleFromNow } from '../support/idle-from-now.js'
import { ok, stamps, type StubNode, stubNode } from '../support/stub-node.js'

const question: Question = {
  endpoint: 'account_modules',
  method: 'GET',
  target: '/v1/accounts/0x1/modules',
  headers: { accept: 'application/json' },
  isIdempotent: true
}
const anything: Route = { version: undefined, atLeast: undefined, events: undefined }
const timeoutMs = 400

type Script = (response: ServerResponse, request: IncomingMessage) => void

interface Nodes {
  readonly fleet: Fleet
  readonly members: readonly Member[]
  readonly stubs: readonly StubNode[]
  /** How often each was asked. */
  asked(): number[]
}

/** A node for each script, in the order of the configuration; unless told otherwise the first is asked first. */
async function fleetOf (
  t: Test,
  scripts: Script[],
  welcome: (name: string) => string | undefined = () => undefined,
  maxConcurrent = 8
): Promise<Nodes> {
  const stubs = await Promise.all(scripts.map(async script =>
    await stubNode(t, (request, response) => {
      script(response, request)
    })
  ))
  const members = stubs.map(({ url }, at) => {
    const node = new LedgerNode({
      name: `n${at + 1}`,
      url,
      headers: {},
      timeoutMs,
      maxConcurrent,
      caFile: null,
      maxGatheredBytes: 10_000,
      now: () => performance.now()
    }, { asked: () => {} })
    t.teardown(async () => {
      await node.close()
    })
    return new Member(node, {
      now: () => performance.now(),
      welcome: async () => welcome(node.name),
      isStrange: () => false,
      recognises: async () => true,
      hasPeers: () => scripts.length > 1
    })
  })
  return {
    fleet: new Fleet(members, undefined, { isGone: () => false }, {
      wallClockMs: () => Date.now(),
      onOldest: () => {},
      onNobody: async () => {}
    }),
    members,
    stubs,
    asked: () => stubs.map(({ asked }) => asked.length)
  }
}

const answers = (body: string, headers: Record<string, string> = {}): Script => response => {
  ok(response, body, headers)
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
const fine: Look = () => undefined

async function asks ({ fleet }: Nodes, route: Partial<Route> = {}, look: Look = fine): Promise<string> {
  try {
    const { status, body } = await fleet.ask(question, { ...anything, ...route }, look)
    return `${status} ${body.toString()}`
  } catch (error) {
    return (error as Error).message
  }
}

t.test('where a node fails before its answer is whole the next is asked, once each', async t => {
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

t.test('a node\'s own 4xx is final', async t => {
  for (const status of [400, 403, 404, 410, 413]) {
    const nodes = await fleetOf(t, [says(status), answers('["second"]')])
    t.equal(await asks(nodes), `${status} {"status":${status}}`)
    t.same(nodes.asked(), [1, 0])
  }
})

t.test('what cannot be true is asked of another node and never handed on', async t => {
  const look: Look = ({ body }) => body.toString() === '["lie"]' ? 'untrue' : undefined
  const nodes = await fleetOf(t, [answers('["lie"]'), answers('["truth"]')])
  t.equal(await asks(nodes, {}, look), '200 ["truth"]')
  t.match(await asks(await fleetOf(t, [answers('["lie"]'), answers('["lie"]')]), {}, look), /every node/)
  t.equal(await asks(await fleetOf(t, [answers('["lie"]'), says(500)]), {}, look), '500 {"status":500}')
})

t.test('when every node fails the most telling real answer is given as it is: a 4xx, then a 429, then a 5xx, else none', async t => {
  t.equal(await asks(await fleetOf(t, [says(503), says(429), breaks])), '429 {"status":429}')
  t.equal(await asks(await fleetOf(t, [says(500), says(503)])), '500 {"status":500}')
  t.equal(await asks(await fleetOf(t, [says(503), breaks, says(404)])), '404 {"status":404}')
  t.match(await asks(await fleetOf(t, [breaks, breaks])), /cut_short/)
  t.match(await asks(await fleetOf(t, [])), /every node/)
})

t.test('what a sick node says of itself is not given while another had no turn left, and may answer soon; what it says of the question is', async t => {
  for (const [word, told] of [[says(500), /n1: busy/], [says(429), /n1: busy/], [says(404), /^404 /]] as const) {
    const nodes = await fleetOf(t, [hangs, word], undefined, 1)
    // One is under way and seven wait: there is no room for another.
    const taken = Promise.allSettled(Array.from({ length: 8 }, async () => await nodes.members[0]?.node.ask(question)))
    t.match(await asks(nodes), told)
    await nodes.members[0]?.node.close()
    await taken
  }
})

t.test('while another able node is left, one that hangs is waited for half of its time', async t => {
  const nodes = await fleetOf(t, [hangs, answers('[]')])
  const began = performance.now()
  const waited = idleFromNow()
  t.equal(await asks(nodes), '200 []')
  const [took, idle] = [performance.now() - began, waited()]
  t.ok(took >= timeoutMs / 2 - 5 && idle < timeoutMs - 20, `${took} ms, ${idle} of them idle`)
  const alone = await fleetOf(t, [hangs])
  const start = performance.now()
  await asks(alone)
  t.ok(performance.now() - start >= timeoutMs - 5)
})

t.test('a 429 rests that node alone, for as long as it says', async t => {
  const nodes = await fleetOf(t, [says(429, { 'retry-after': '60' }), answers('["second"]')])
  for (let nth = 0; nth < 3; nth++) t.equal(await asks(nodes), '200 ["second"]')
  t.same(nodes.asked(), [1, 3])
})

t.test('after five failures a node is asked only where no other is left, and still is then', async t => {
  let isWell = true
  const second: Script = response => {
    if (isWell) ok(response, '["second"]')
    else response.destroy()
  }
  const nodes = await fleetOf(t, [breaks, second])
  // Its answers take longer than those that fail at once, so without a circuit the first would be asked each time.
  for (let nth = 0; nth < 10; nth++) await asks(nodes)
  const [first = 0] = nodes.asked()
  t.ok(first <= 5, `${first} times`)
  isWell = false
  await asks(nodes)
  t.equal(nodes.asked()[0], first + 1)
})

t.test('a node whose chain is another one is not asked for data, and what it said is not handed on', async t => {
  const nodes = await fleetOf(
    t,
    [answers('["other"]'), answers('["ours"]')],
    name => name === 'n1' ? 'serves chain 9' : undefined
  )
  for (let nth = 0; nth < 3; nth++) t.equal(await asks(nodes), '200 ["ours"]')
  t.same(nodes.asked(), [1, 3])
  t.equal(nodes.members[0]?.fence, 'serves chain 9')
})

t.test('what bears no position is not taken of a node that is still to be compared: it may be of another chain', async t => {
  const unstamped: Script = response => {
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"error_code":"table_item_not_found"}')
  }
  const nodes = await fleetOf(t, [unstamped, answers('["ours"]')])
  t.equal(await asks(nodes), '200 ["ours"]')
  t.same(nodes.asked(), [1, 1])
  t.match(await asks(await fleetOf(t, [unstamped, breaks])), /cut_short|garbage/)
  t.match(await asks(await fleetOf(t, [unstamped])), /^404/, 'where it is the only one there is nothing to take it for')
})

t.test('what is handed on as it comes is asked of another node only before its first byte, and what may not be asked twice of one alone', async t => {
  const nodes = await fleetOf(t, [breaks, answers('["second"]')])
  const passed = await nodes.fleet.pass(question, anything, fine, new AbortController().signal)
  t.equal(passed.status, 200)
  passed.rest?.destroy()
  const once = await fleetOf(t, [breaks, answers('["second"]')])
  await t.rejects(
    once.fleet.pass(
      { ...question, method: 'POST', isIdempotent: false, body: '{}' },
      anything,
      fine,
      new AbortController().signal
    )
  )
  t.same(once.asked(), [1, 0])
})
