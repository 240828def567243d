import type { Aptos } from '@aptos-labs/ts-sdk'
import t, { type Test } from 'tap'
import { pendingTransactions } from '../../sandbox/transactions.js'
import { freshSdk } from '../support/sdk/fresh-client.js'
import { clientOf } from '../support/sdk/calls.js'
import { until } from '../support/until.js'
import { varveAtSandbox } from '../support/varve.js'

// Uses a client without memory, which does not matter for transactions.
const sdk = freshSdk()

function clientAt (t: Test, url: string): Aptos {
  t.capture(console, 'info')
  return clientOf(sdk, url)
}

t.test('the client completes a block that the node truncates, through varve as directly', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blockTransactionsMax: 3 })
  const block = sandbox.ledger.block(446)
  const size = Number(block.lastVersion - block.firstVersion) + 1
  t.ok(size > 5)
  const read = async (url: string): Promise<unknown> =>
    await clientAt(t, url).getBlockByVersion({ ledgerVersion: block.firstVersion, options: { withTransactions: true } })
  const truth = await read(sandbox.url)
  t.match(truth, { transactions: { length: size } })
  t.ok(sandbox.requests.countFor('transactions') > 0)
  for (const times of ['first', 'second']) t.same(await read(varve.url), truth, `the ${times} time`)
})

t.test('waiting for a transaction is one long forwarded request, done when the chain includes it', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { waitByHashMs: 30_000, blocks: 50, prunedBlocks: 0 })
  const pendingHash = (): string | undefined => pendingTransactions(sandbox.ledger, sandbox.ledger.height)[0]?.hash
  while (pendingHash() === undefined) sandbox.ledger.grow()
  const hash = String(pendingHash())
  const came = clientAt(t, varve.url).waitForTransaction({ transactionHash: hash, options: { checkSuccess: false } })
  await until(
    () => sandbox.requests.countFor('transaction_wait_by_hash') === 1,
    'the upstream gets the waiting request'
  )
  t.equal(await clientAt(t, varve.url).isPendingTransaction({ transactionHash: hash }), true)
  sandbox.ledger.grow()
  t.same(await came, await clientAt(t, sandbox.url).getTransactionByHash({ transactionHash: hash }))
  t.equal(sandbox.requests.countFor('transaction_wait_by_hash'), 1)
  t.equal(
    await clientAt(t, varve.url).isPendingTransaction({ transactionHash: hash }),
    false,
    'the wait was not cached'
  )
})
