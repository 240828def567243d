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

t.test('varve returns four hundred transactions of every kind byte for byte, and fetches them once', async t => {
  const { sandbox, varve } = await varveAtSandbox(t, { blocks: 100, prunedBlocks: 0 })
  const [direct, through] = [clientAt(t, sandbox.url), clientAt(t, varve.url)]
  const kinds = new Set<string>()
  const offsets = Array.from({ length: 4 }, (_, at) => at * 100)
  const page = async (aptos: Aptos, offset: number): Promise<string> =>
    JSON.stringify(await aptos.getTransactions({ options: { offset, limit: 100 } }))
  for (const offset of offsets) {
    const truth = await page(direct, offset)
    for (const { type } of JSON.parse(truth) as Array<{ type: string }>) kinds.add(type)
    t.equal(await page(through, offset), truth)
  }
  const requestCount = sandbox.requests.countFor('transactions')
  for (const offset of offsets) await page(through, offset)
  t.equal(sandbox.requests.countFor('transactions'), requestCount)
  t.same([...kinds].sort(), [
    'block_epilogue_transaction',
    'block_metadata_transaction',
    'genesis_transaction',
    'state_checkpoint_transaction',
    'user_transaction',
    'validator_transaction'
  ])
})

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
