import t, { type Test } from 'tap'
import { type Follower } from '../../src/follow/follower.js'
import { type Outcome } from '../../src/proxy/outcomes.js'
import { noClient } from '../../src/proxy/pinned-read.js'
import { type ProxyParts } from '../../src/http/send-response.js'
import { serveRead } from '../../src/proxy/serve-read.js'
import { serveAwaited } from '../../src/proxy/wait-for-transaction.js'
import { pendingTransactions } from '../../sandbox/transactions.js'
import { type Fault, type Sandbox } from '#sandbox'
import { contextAt, readOfTarget } from '../support/proxy-context.js'
import { startSandboxNode } from '../support/replicas.js'
import { until } from '../support/until.js'

/** Waits for the sandbox's pending transaction; `commit` runs once a node has answered, and returns its version. */
async function waitFor (
  t: Test,
  commit: (sandbox: Sandbox, context: ProxyParts) => Promise<bigint | undefined>,
  clientGone = new AbortController().signal
): Promise<{ sandbox: Sandbox, context: ProxyParts, outcome: Outcome }> {
  const sandbox = await startSandboxNode(t, { blocks: 50, prunedBlocks: 0 })
  const { ledger } = sandbox
  while (pendingTransactions(ledger, ledger.height).length === 0) ledger.grow()
  const { context } = contextAt(t, sandbox.url)
  const read = readOfTarget(`/v1/transactions/by_hash/${String(pendingTransactions(ledger, ledger.height)[0]?.hash)}`)
  const follower = { waitForTransaction: async () => await commit(sandbox, context) }
  const outcome = await serveAwaited(context, follower as unknown as Follower, read, noClient, clientGone)
  return { sandbox, context, outcome }
}

/** Type of the transaction that a client gets. */
function typeOf (outcome: Outcome): unknown {
  const body = outcome.name === 'hit' ? outcome.entry.body : outcome.fetched.response.body
  return (JSON.parse(body.toString()) as { type: unknown }).type
}

t.test('a wait ends with the committed transaction', async t => {
  const { outcome } = await waitFor(t, async ({ ledger }) => {
    ledger.grow()
    return ledger.head.version
  })
  t.equal(typeOf(outcome), 'user_transaction')
})

t.test('a wait whose transaction cannot be fetched in time ends with what the node said first', async t => {
  const faults: Fault[] = [
    { kind: 'error', code: 'internal_error', status: 500 },
    { kind: 'reset' },
    { kind: 'slow', ms: 1200 }
  ]
  for (const fault of faults) {
    const { outcome, context } = await waitFor(t, async ({ ledger, faults }, served) => {
      ledger.grow()
      // The served head is the followed one by now.
      await serveRead(served, readOfTarget('/v1'))
      faults.add({ ...fault, match: 'transaction_by_hash' })
      return ledger.head.version
    })
    t.equal(typeOf(outcome), 'pending_transaction', fault.kind)
    await until(() => context.upstreamPool.upstreams[0]?.health.inFlight === 0, 'the late response has come')
  }
})

t.test('nothing more is fetched for a client that has left its wait', async t => {
  const client = new AbortController()
  const { sandbox, outcome } = await waitFor(t, async ({ ledger }) => {
    ledger.grow()
    client.abort()
    return ledger.head.version
  }, client.signal)
  t.equal(typeOf(outcome), 'pending_transaction')
  t.equal(sandbox.requests.countFor('transaction_by_hash'), 1)
})

t.test('a wait that a reset ends is answered by the new chain', async t => {
  const { sandbox, outcome } = await waitFor(t, async (sandbox, { tracker }) => {
    const { stamped } = tracker
    sandbox.reset({ seed: 7, blocks: 60 })
    if (stamped !== undefined) tracker.reset(stamped)
    return undefined
  })
  t.match(outcome, {
    fetched: { response: { status: 404, stamped: { position: { head: { version: sandbox.ledger.head.version } } } } }
  })
})
