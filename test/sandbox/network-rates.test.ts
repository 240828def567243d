import t from 'tap'
import { type CommittedTransaction } from '../../sandbox/records.js'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { stateAt } from '../../sandbox/state.js'
import { itemKey } from '../../sandbox/state-key.js'
import { addressOf } from '../../sandbox/address.js'
import { transactionRecord } from '../../sandbox/transactions.js'

const hottest = itemKey(addressOf('5eed'), Buffer.from('0700000000000000', 'hex'))

t.test('writes, failures, publishes, epochs and system transactions come at the rates of a network', async t => {
  const ledger = new Ledger({ ...defaultSettings, blocks: 420, prunedBlocks: 0, blockTransactions: 10 })
  const records = Array.from(
    { length: Number(ledger.head.version) + 1 },
    (_, version) => transactionRecord(ledger, ledger.blockOf(BigInt(version)), BigInt(version))
  )
  const users = records.filter(record => record.type === 'user_transaction')
  const shareOf = (isOne: (record: CommittedTransaction) => boolean): number =>
    users.filter(isOne).length / users.length
  // Two system transactions frame each block but genesis; few blocks have a third.
  const system = records.length - users.length
  t.ok(system >= 2 * 419 && system < 2.3 * 419, `${system}`)
  const failed = shareOf(({ success }) => !success)
  t.ok(failed > 0.01 && failed < 0.1, `${failed} fail`)
  const published = shareOf(({ changes }) => changes.some(({ type }) => type === 'write_module'))
  t.ok(published > 0.01 && published < 0.1, `${published} publish`)
  const writes = new Map<string, number>()
  for (const { state_key_hash: hash, type } of users.flatMap(({ changes }) => changes)) {
    if (type === 'write_table_item') writes.set(hash, (writes.get(hash) ?? 0) + 1)
  }
  const counts = [...writes.values()].sort((a, b) => b - a)
  const [first = 0, tenth = 0, hundredth = 0] = [0, 9, 99].map(index => counts[index])
  // Zipf: a key written n times as often as the n-th.
  t.ok(first > 4 * tenth && tenth > 3 * hundredth && counts.length > 200, `${first}, ${tenth}, ${hundredth}`)
  const features = records.filter(({ changes }) =>
    changes.some(change => change.type === 'write_resource' && change.data.type === '0x1::features::Features')
  )
  t.same(features.map(({ version }) => Number(ledger.blockOf(BigInt(version)).height)), [0, 200, 400])
})

t.test('pruning bounds what is remembered', async t => {
  const options = { ...defaultSettings, blocks: 1, prunedBlocks: 0, windowBlocks: 20, blockTransactions: 3 }
  const ledger = new Ledger(options)
  const keysAfter = (blocks: number): number => {
    for (let block = 0; block < blocks; block++) {
      ledger.grow()
      stateAt(ledger, hottest, ledger.head.version)
    }
    transactionRecord(ledger, ledger.block(ledger.height), ledger.head.version)
    return ledger.state.size
  }
  const before = keysAfter(3_000)
  const after = keysAfter(3_000)
  // Some cold keys are first written late; a booking that stays would add one key for each cycle of 128 versions.
  t.ok(after < before + 50, `${before}, then ${after} keys`)
  t.throws(() => ledger.accumulator.rootOf(1_000), { message: /was dropped/ })
})
