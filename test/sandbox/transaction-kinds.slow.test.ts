import t from 'tap'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { type Block, startSandbox } from '#sandbox'
import { committedTransaction } from '../../sandbox/schema/transaction.js'
import { transactionRecord } from '../../sandbox/transactions.js'
import { requestNode } from '../sandbox/request-node.js'
import { transactionKindsOf } from '../support/transaction-kinds.js'

t.test('for any seed and start every transaction kind but huge ones recurs in five hundred blocks', async t => {
  const first = new Ledger({ ...defaultSettings, blocks: 1_001 })
  const known = new Set(
    [...smallBlocks(first, 1, 1_000)].flatMap(({ records }) =>
      records.flatMap(record => [...transactionKindsOf(record)])
    )
  )
  t.ok(known.size > 70)
  for (const [seed, startVersion] of [[1, 0n], [2, 77n], [3, 2n ** 53n + 1n]] as const) {
    const ledger = new Ledger({ ...defaultSettings, seed, startVersion, blocks: 1_001 })
    const last = new Map([...known].map(kind => [kind, 0]))
    let widest = 0
    for (const { block, records } of smallBlocks(ledger, 1, 1_000)) {
      const kinds = new Set(records.flatMap(record => [...transactionKindsOf(record)]))
      t.same([...kinds].filter(kind => !last.has(kind)), [], `${block.height}`)
      for (const kind of block.height === 1_000n ? last.keys() : kinds) {
        widest = Math.max(widest, Number(block.height) - Number(last.get(kind)))
        last.set(kind, Number(block.height))
      }
    }
    t.ok(widest <= 500, `${widest} blocks for the seed ${seed}`)
  }
})

function* smallBlocks (ledger: Ledger, from: number, to: number): Generator<{ block: Block, records: any[] }> {
  for (let height = from; height <= to; height++) {
    const block = ledger.block(height)
    const size = Number(block.lastVersion - block.firstVersion) + 1
    const records = Array.from(
      { length: size > 100 ? 0 : size },
      (_, index) => transactionRecord(ledger, block, block.firstVersion + BigInt(index))
    )
    yield { block, records }
  }
}

t.test('every transaction of the recent blocks matches its schema, with members in schema order', async t => {
  const { url, ledger, close } = await startSandbox({ blockMs: 0 })
  t.teardown(close)
  let checked = 0
  for (let height = Number(ledger.oldest.blockHeight); height <= ledger.height; height++) {
    const { transactions } = (await requestNode(`${url}/v1/blocks/by_height/${height}?with_transactions=true`)).json
    // Checks a part of a block of thousands.
    const some = transactions.filter((_: unknown, index: number) => index < 20 || index % 11 === 0)
    checked += some.length
    const wrong = some.filter((record: unknown) => {
      const read = committedTransaction.safeParse(record)
      return !read.success || JSON.stringify(read.data) !== JSON.stringify(record)
    })
    t.same(wrong, [], `the block of height ${height}`)
  }
  t.ok(checked > 4_500, `${checked}`)
})
