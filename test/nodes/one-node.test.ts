import t, { type Test } from 'tap'
import { type StampedPosition } from '../../src/ledger/position.js'
import { LiveReleases } from '../../src/nodes/live-releases.js'
import { LedgerNode } from '../../src/nodes/node.js'
import { OneNode } from '../../src/nodes/one-node.js'
import { type Question } from '../../src/nodes/question.js'
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.js'

const question: Question = { endpoint: 'other', method: 'GET', target: '/v1', headers: {}, isIdempotent: true }

interface Reached {
  readonly sandbox: Sandbox
  readonly nodes: OneNode
  /** Where the node stood each time that it was welcomed. */
  readonly welcomed: bigint[]
  readonly clock: { ms: number }
}

async function reached (t: Test, welcome: (stamped: StampedPosition) => Promise<boolean> = async () => true): Promise<Reached> {
  const sandbox = await startSandbox({ blockMs: 0, blocks: 200, prunedBlocks: 10 })
  const node = new LedgerNode({ name: 'n', url: sandbox.url, headers: {}, timeoutMs: 5000, maxConcurrent: 4, caFile: null, maxGatheredBytes: 1e6, now: () => 0 }, { asked: () => {} })
  t.teardown(async () => { await Promise.all([node.close(), sandbox.close()]) })
  const welcomed: bigint[] = []
  const clock = { ms: 0 }
  const nodes = new OneNode(node, {
    releases: new LiveReleases(() => 0),
    now: () => clock.ms,
    welcome: async stamped => {
      welcomed.push(stamped.position.head.version)
      return await welcome(stamped)
    }
  })
  return { sandbox, nodes, welcomed, clock }
}

t.test('a node is welcomed before the first thing that it says is believed, once for all who ask at the time, and not again while it answers', async t => {
  let compared = (): void => {}
  const comparing = new Promise<void>(resolve => { compared = resolve })
  const { sandbox, nodes, welcomed } = await reached(t, async () => {
    await comparing
    return true
  })
  let answered = 0
  const asking = [1, 2, 3].map(async () => { await nodes.ask(question).then(() => { answered++ }) })
  while (sandbox.asked.total < 3) await new Promise(resolve => { setImmediate(resolve) })
  await new Promise(resolve => { setTimeout(resolve, 30) })
  t.same([answered, welcomed.length], [0, 1])
  compared()
  await Promise.all(asking)
  await nodes.ask(question)
  t.equal(welcomed.length, 1)
})

t.test('a node that was away is compared again when it comes back, also where a pass-through is the first to reach it', async t => {
  const { sandbox, nodes, welcomed } = await reached(t)
  await nodes.ask(question)
  for (const away of [{ kind: 'reset' }, { kind: 'error', code: 'internal_error', status: 503 }] as const) {
    const fault = sandbox.faults.add(away)
    await nodes.ask(question).catch(() => {})
    fault.remove()
    sandbox.ledger.grow(1)
    const passed = await nodes.pass(question, new AbortController().signal)
    passed.rest?.destroy()
    t.equal(welcomed.at(-1), sandbox.ledger.head.version, away.kind)
    await nodes.ask(question)
  }
  t.equal(welcomed.length, 3)
})

t.test('a client that takes its question back does not make a node one that was away', async t => {
  const { sandbox, nodes, welcomed } = await reached(t)
  await nodes.ask(question)
  const hold = sandbox.faults.hold()
  const taken = new AbortController()
  const passing = nodes.pass(question, taken.signal)
  await hold.arrived
  taken.abort()
  await t.rejects(passing)
  hold.release()
  await nodes.ask(question)
  t.equal(welcomed.length, 1)
})

t.test('a node that is not to be believed, or is doubted, is compared at its next answer', async t => {
  let isRight = false
  const { nodes, welcomed } = await reached(t, async () => isRight)
  await nodes.ask(question)
  await nodes.ask(question)
  t.equal(welcomed.length, 2)
  isRight = true
  await nodes.ask(question)
  await nodes.ask(question)
  t.equal(welcomed.length, 3)
  nodes.doubt()
  await nodes.ask(question)
  await nodes.ask(question)
  t.equal(welcomed.length, 4)
})

t.test('a node whose connection was lost may have come back with another chain: it is compared, once, and four times a second at most where it ends every connection', async t => {
  const { nodes, welcomed, clock } = await reached(t)
  const timesAt = async (ms: number): Promise<number> => {
    clock.ms = ms
    await nodes.ask(question)
    return welcomed.length
  }
  t.equal(await timesAt(0), 1)
  nodes.lost()
  t.same([await timesAt(1), await timesAt(2)], [2, 2])
  nodes.lost()
  t.same([await timesAt(3), await timesAt(250), await timesAt(251), await timesAt(252)], [2, 2, 3, 3])
  nodes.lost()
  t.same([await timesAt(500), await timesAt(501), await timesAt(9000)], [3, 4, 4])
})

t.test('an answer without a position is nothing to compare', async t => {
  const { sandbox, nodes, welcomed } = await reached(t)
  sandbox.faults.add({ kind: 'rateLimited', times: 1 })
  t.equal((await nodes.ask(question)).status, 429)
  t.equal(welcomed.length, 0)
  await nodes.ask(question)
  t.equal(welcomed.length, 1)
})

t.test('what it lacks is said by its last window, and how far it has ever got by all of them', async t => {
  const { sandbox, nodes } = await reached(t)
  const { head, oldest } = sandbox.ledger
  t.same([nodes.lacks(0n), nodes.hasReached(0n)], [false, false], 'of a node that was never asked nothing is known')
  await nodes.ask(question)
  t.same([nodes.lacks(oldest.version), nodes.lacks(oldest.version - 1n)], [false, true])
  t.same([nodes.hasReached(head.version), nodes.hasReached(head.version + 1n)], [true, false])
  sandbox.faults.add({ kind: 'lag', blocks: 50 })
  await nodes.ask(question)
  t.equal(nodes.hasReached(head.version), true, 'it may get there again')
})

t.test('while no node lives no release is gone, and the release that the node said last is never gone', async t => {
  const { sandbox, nodes } = await reached(t)
  nodes.runs('a')
  t.equal(nodes.isGone('b'), false)
  await nodes.ask(question)
  t.same([nodes.isGone('a'), nodes.isGone('b')], [false, true])
  sandbox.faults.add({ kind: 'reset', times: 1 })
  await t.rejects(nodes.ask(question))
  t.equal(nodes.isGone('b'), false)
})
