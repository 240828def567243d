import { hash } from 'node:crypto'
import t from 'tap'
import { BcsReader } from '../../sandbox/bcs.js'
import { Ledger } from '../../sandbox/ledger.js'
import { defaultSettings } from '../../sandbox/options.js'
import { stateKeyHash } from '../../sandbox/state-key.js'
import { transactionBytes, transactionRecord } from '../../sandbox/transactions.js'
import { readStructTagBytes } from '../../sandbox/type-tag.js'

const blocks = 200
const ledger = new Ledger({ ...defaultSettings, blocks, prunedBlocks: 0 })
const versions = Array.from({ length: Number(ledger.head.version) + 1 }, (_, version) => BigInt(version))
const recordOf = (of: Ledger, version: bigint) => transactionRecord(of, of.blockOf(version), version)
const hex = (text: string): Buffer => Buffer.from(text.slice(2), 'hex')

interface WriteOp {
  readonly key: Buffer
  readonly keyHash: string
  readonly variant: number
  readonly value: Buffer | undefined
}

/** Reads a write set to its end, by the published layouts. */
function readWriteSet (bytes: Buffer): WriteOp[] {
  const reader = new BcsReader(bytes)
  t.equal(reader.readByte(), 0)
  const writes = reader.readItems((): WriteOp => {
    const kind = reader.readByte()
    const address = reader.readBytes(32)
    const rest = reader.readSizedBytes()
    const length = Buffer.from(rest.length < 128 ? [rest.length] : [rest.length & 127 | 128, rest.length >> 7])
    // The hash has the length of a path, and not that of a table key.
    const hashed = Buffer.concat([Buffer.from([kind]), address, ...kind === 0 ? [length] : [], rest])
    const variant = reader.readByte()
    const value = variant === 4 ? reader.readSizedBytes() : undefined
    t.equal(reader.readByte(), 0)
    reader.readBytes(16)
    return {
      key: Buffer.concat([Buffer.from([kind]), address, length, rest]),
      keyHash: stateKeyHash(hashed),
      variant,
      value
    }
  })
  reader.requireEnd()
  return writes
}

/** Finds the write set as a follower does that knows no transaction: between known hashes and the next version. */
function writeSetOf (bytes: Buffer, record: ReturnType<typeof recordOf>): Buffer {
  const hashes = Buffer.concat([record.hash, record.event_root_hash, record.state_change_hash].map(hex))
  const after = bytes.indexOf(hashes) + hashes.length
  t.ok(after > hashes.length, 'the three hashes stand side by side')
  const root = bytes.indexOf(hex(record.accumulator_root_hash), after)
  t.ok(root >= after)
  return bytes.subarray(root + 32)
}

t.test('a write set in BCS has the hash that the transaction names, and the keys that JSON lists', async t => {
  const prefix = hash('sha3-256', 'APTOS::WriteSet', 'buffer')
  let groups = 0
  for (const version of versions) {
    const record = recordOf(ledger, version)
    const bytes = transactionBytes(ledger, version)
    t.equal(bytes.readBigUInt64LE(), version)
    const writeSet = writeSetOf(bytes, record)
    t.equal(`0x${hash('sha3-256', Buffer.concat([prefix, writeSet]), 'hex')}`, record.state_change_hash)
    const writes = readWriteSet(writeSet)
    t.same(
      [...new Set(record.changes.map(change => change.state_key_hash))].sort(),
      writes.map(({ keyHash }) => keyHash).sort()
    )
    t.ok(
      writes.every(({ key }, index) =>
        index === 0 || Buffer.compare(Number(index) > 0 ? writes[index - 1]?.key ?? key : key, key) < 0
      )
    )
    for (const { keyHash, variant, value } of writes) {
      const changes = record.changes.filter(change => change.state_key_hash === keyHash)
      if (variant === 5) t.match(changes, [{ type: /^delete_/ }])
      else if (changes.length > 1) {
        groups++
        // The members of a group, with their bytes.
        const members = new BcsReader(value ?? Buffer.alloc(0))
        const tags = members.readItems(() => {
          const tag = readStructTagBytes(members)
          members.readSizedBytes()
          return tag.name
        })
        members.requireEnd()
        t.same(
          tags.sort(),
          changes.map(change => String(change.type === 'write_resource' && change.data.type.split('::')[2])).sort()
        )
      }
    }
  }
  t.ok(groups > 20, `${groups}`)
})
