import t from 'tap'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { type Block } from '#sandbox'
import { transactionRecord } from '../../sandbox/transactions.js'
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
