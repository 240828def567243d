import t, { type Test } from 'tap'
import { eventRoot, TransactionAccumulator } from '../../sandbox/accumulator.js'
import { addressBytes, addressOf } from '../../sandbox/address.js'
import { sequenceBytes, sizedBytes, u64Bytes } from '../../sandbox/bcs.js'
import { Ledger } from '../../sandbox/ledger.js'
import { infoBytes } from '../../sandbox/kinds/outcome.js'
import { writeSetBytes } from '../../sandbox/kinds/render-write-set.js'
import { defaultSettings } from '../../sandbox/options.js'
import { resourceKey, stateKeyBytes } from '../../sandbox/state-key.js'
import { transactionBytes, transactionRecord } from '../../sandbox/transactions.js'
import { trustedStructTag, structTagBytes } from '../../sandbox/type-tag.js'
import { hasherOf } from '../../sandbox/digests.js'

// Two real transactions: versions 1 and 2 of the public test network, which are the first of blocks 1 and 2.
const hex = (text: string): Buffer => Buffer.from(text, 'hex')
const base64 = (text: string): Buffer => Buffer.from(text, 'base64')
const framework = addressOf('1')
const [firstProposer, proposer] = [
  'dffe3c93b756bf6fec59b052d6fe71b40c3f9b7899d69ab06ba385b1c6728d16',
  'acb107b98cd634ca32d39d38ab13df8cbcd5fe7856ce2a3c3d123e53f95d0b6f'
]
const rewards: ReadonlyArray<readonly [pool: string, amount: bigint]> = [
  ['b7c7d12080209e9dc14498c80200706e760363fb31782247e82cf57d1d6e5d6c', 0n],
  [firstProposer, 4_566_200_000n],
  ['828ca971e35c8b9a807439e5a328fdc9a5ed0efbfb12f40bc451d17f6998be3f', 0n],
  [proposer, 0n]
]
const id = hex('7155ede2ab87b66e7beba3210b43367eb90daff8891d44ed05eed20a71b9b55a')
const time = 1_662_686_657_332_551n
const transactionHash = base64('SsoNQKOBgAio6uhktBo/4d5fcJXq9G54n8LrnutVO2Y=')
const roots = ['nqkZmoQ8Amm54AP8v7Lab3A08VWAQ8VY4iHol7Jft04=', 'eeJ/lMn9FILk1P2HB4gbw4BsU7gMRKUkHMYdXgkVNlg='].map(
  base64
)
const eventRoots = ['G0xb03ClIZcal2Kv3LG+aKSKh9f4z70gmDSDvZLSW54=', 'YkVwDmErwHmygLUAbEOjqtOD4yHXwEvXw7PrcMHCttc='].map(
  base64
)
const stateChange = base64('DuRumQT500xtevY2M6uxcF4eEy3+JdSVqYw4il6LpFc=')

const eventOf = (number: bigint, account: string, sequence: bigint, type: string, data: readonly Buffer[]): Buffer =>
  hasherOf('ContractEvent')(
    Buffer.from([0]),
    u64Bytes(number),
    addressBytes(account),
    u64Bytes(sequence),
    Buffer.from([7]),
    structTagBytes(trustedStructTag(type)),
    sizedBytes(Buffer.concat(data))
  )

t.test('the root over one event, and over six, is that of a real transaction', async t => {
  const failed = [2n, 1n].map(u64Bytes)
  const first = eventRoot([
    eventOf(3n, framework, 1n, '0x1::block::NewBlockEvent', [
      hex('01f4392dc07a74b39eaea58b912855cbbd1ab67e5089ae6166329e883c2085f0'),
      ...[1n, 3n, 1n].map(u64Bytes),
      sizedBytes(Buffer.from([0])),
      hex(firstProposer),
      sequenceBytes(failed),
      u64Bytes(1_662_686_657_227_425n)
    ]),
    ...rewards.map(([pool, amount]) =>
      eventOf(12n, pool, 0n, '0x1::stake::DistributeRewardsEvent', [hex(pool), u64Bytes(amount)])
    ),
    eventOf(2n, framework, 1n, '0x1::reconfiguration::NewEpochEvent', [u64Bytes(2n)])
  ])
  t.same(first, eventRoots[0])
  const second = eventRoot([
    eventOf(3n, framework, 2n, '0x1::block::NewBlockEvent', [
      id,
      ...[2n, 1n, 2n].map(u64Bytes),
      sizedBytes(Buffer.from([0])),
      hex(proposer),
      sequenceBytes([]),
      u64Bytes(time)
    ])
  ])
  t.same(second, eventRoots[1])
  t.equal(eventRoot([]).toString('hex'), '414343554d554c41544f525f504c414345484f4c4445525f4841534800000000')
})

t.test('the hash of a write set with four writes is that of a real transaction', async t => {
  const handle = (
    count: bigint,
    number: bigint
  ): Buffer[] => [u64Bytes(count), u64Bytes(number), addressBytes(framework)]
  const values: ReadonlyArray<readonly [string, Buffer[]]> = [
    ['0x1::block::BlockResource', [u64Bytes(2n), u64Bytes(7_200_000_000n), ...handle(3n, 3n), ...handle(0n, 4n)]],
    [
      '0x1::stake::ValidatorPerformance',
      [sequenceBytes([0n, 0n, 0n, 1n].map(proposals => Buffer.concat([u64Bytes(proposals), u64Bytes(0n)])))]
    ],
    ['0x1::timestamp::CurrentTimeMicroseconds', [u64Bytes(time)]],
    ['0x1::state_storage::StateStorageUsage', [2n, 128n, 273_204n].map(u64Bytes)]
  ]
  // That network has no deposits yet, so each write is a plain modification.
  const entries = values.map(([type, value]) => ({
    key: stateKeyBytes(resourceKey(framework, trustedStructTag(type))),
    value: sizedBytes(Buffer.concat(value))
  })).sort((a, b) => a.key.compare(b.key))
  const bytes = Buffer.concat([
    Buffer.from([0, entries.length]),
    ...entries.flatMap(({ key, value }) => [key, Buffer.from([1]), value])
  ])
  t.same(hasherOf('WriteSet')(bytes), stateChange)
  t.equal(
    hasherOf('WriteSet')(writeSetBytes([])).toString('hex'),
    'afb6e14fe47d850fd0a7395bcfb997ffacf4715e0f895cc162c218e4a7564bc6'
  )
})

t.test('the leaf of a real transaction, on the root before it, gives its real root', async t => {
  const leaf = hasherOf('TransactionInfo')(infoBytes({
    gas: 0n,
    failure: undefined,
    hash: transactionHash,
    eventRoot: eventRoots[1] ?? Buffer.alloc(0),
    stateChange,
    checkpoint: undefined
  }))
  const placeholder = eventRoot([])
  const node = hasherOf('TransactionAccumulator')
  t.same(node(roots[0] ?? placeholder, node(leaf, placeholder)), roots[1])
})

t.test('with real leaves every root is the one over the transactions that are read', async t => {
  const options = { ...defaultSettings, blocks: 60, prunedBlocks: 0 }
  const [real, drawn] = [new Ledger({ ...options, realLeaves: true }), new Ledger(options)]
  requireRoots(t, real)
  for (let version = 0n; version <= real.head.version; version++) {
    const { accumulator_root_hash: root } = transactionRecord(real, real.blockOf(version), version)
    t.not(transactionRecord(drawn, drawn.blockOf(version), version).accumulator_root_hash, root)
  }
})

t.test('a newer info of a transaction has a hash of the hot state, and is part of the roots', async t => {
  const ledger = new Ledger({ ...defaultSettings, blocks: 60, prunedBlocks: 0, realLeaves: true })
  ledger.transactionInfo = 'v1'
  requireRoots(t, ledger)
})

function requireRoots (t: Test, real: Ledger): void {
  const form = real.transactionInfo === 'v1' ? 1 : 0
  const accumulator = new TransactionAccumulator()
  const bytesOf = (text: string): Buffer => hex(text.slice(2))
  for (let version = 0n; version <= real.head.version; version++) {
    const record = transactionRecord(real, real.blockOf(version), version)
    const bytes = transactionBytes(real, version)
    const hashes = Buffer.concat([record.hash, record.event_root_hash, record.state_change_hash].map(bytesOf))
    const checkpoint = record.state_checkpoint_hash === null ? [0] : [1, ...bytesOf(record.state_checkpoint_hash)]
    // The info begins with the gas and ends with the hashes; a successful one is known in full from JSON.
    const rest = form === 1 ? [...checkpoint, ...checkpoint, ...Buffer.alloc(9)] : [...checkpoint, 0]
    const [at, tail] = [bytes.indexOf(hashes), Buffer.concat([hashes, Buffer.from(rest)])]
    const head = Buffer.concat([Buffer.from([form]), u64Bytes(BigInt(record.gas_used))])
    const start = record.success ? at - head.length - 1 : bytes.lastIndexOf(head, at)
    const info = bytes.subarray(start, at + tail.length)
    t.same(info.subarray(0, head.length), head)
    t.same(info.subarray(-tail.length), tail)
    accumulator.append(hasherOf('TransactionInfo')(info))
    t.same(accumulator.rootOf(accumulator.leafCount), bytesOf(record.accumulator_root_hash), `version ${version}`)
  }
}
