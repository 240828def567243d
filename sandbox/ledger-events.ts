import { addressBytes, addressOf, shortAddress } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes } from './bcs.js'
import { depositAccount, depositStream } from './deposit-events.js'
import { digestHex } from './seeded-digest.js'
import { type Block, epochBlocks, type Ledger } from './ledger.js'
import { type EventRecord } from './records.js'
import { type LedgerEvent, type AccountEventStream } from './account-event-stream.js'

const frameworkAddress = addressOf('1')

/** Stream with one event per block. */
export const newBlockStream: AccountEventStream = {
  account: frameworkAddress,
  creationNumber: 3n,
  countAtHeight: height => height + 1,
  eventAt: (ledger, sequence) => makeNewBlockEvent(ledger, ledger.block(sequence))
}

/** Stream with one event per epoch. */
export const newEpochStream: AccountEventStream = {
  account: frameworkAddress,
  creationNumber: 2n,
  countAtHeight: height => Math.floor(height / epochBlocks) + 1,
  eventAt (ledger, sequence) {
    const { epoch, firstVersion } = ledger.block(sequence * epochBlocks)
    return {
      version: firstVersion,
      creationNumber: 2n,
      account: frameworkAddress,
      sequence: BigInt(sequence),
      type: ['reconfiguration', 'NewEpochEvent'],
      data: { epoch: String(epoch) },
      bytes: u64Bytes(epoch)
    }
  }
}

/** Every stream that has events; any other handle has none. */
export const streams: readonly AccountEventStream[] = [newBlockStream, newEpochStream, depositStream]

/** Returns the stream events that a transaction emitted. */
export function eventsOfVersion (ledger: Ledger, block: Block, version: bigint): LedgerEvent[] {
  // Every stream emits in one of the first two transactions, so the rest of a huge block costs nothing.
  if (version > block.firstVersion + 1n) return []
  const height = Number(block.height)
  return streams.flatMap(stream => {
    const count = stream.countAtHeight(height)
    return count > stream.countAtHeight(height - 1) ? stream.eventAt(ledger, count - 1) : []
  }).filter(event => event.version === version)
}

/** True if a transaction deposits coins: one in every third block does. */
export function isDepositAt (ledger: Ledger, block: Block, version: bigint): boolean {
  return block.height % 3n === 0n && version <= block.firstVersion + 1n &&
    eventsOfVersion(ledger, block, version).some(({ account }) => account === depositAccount)
}

/** Builds the JSON form of an event inside a transaction, which has no version. */
export function eventRecord (event: LedgerEvent): EventRecord {
  const [module, name] = event.type
  return {
    guid: { creation_number: String(event.creationNumber), account_address: shortAddress(event.account) },
    sequence_number: String(event.sequence),
    type: `0x1::${module}::${name}`,
    data: event.data
  }
}

/** Encodes an event in BCS after its version: variant 0 of the event enum, with the type as a struct tag. */
export function eventBytes (event: LedgerEvent): Buffer {
  const [module, name] = event.type
  return Buffer.concat([
    u64Bytes(event.version),
    Buffer.from([0]),
    u64Bytes(event.creationNumber),
    addressBytes(event.account),
    u64Bytes(event.sequence),
    Buffer.from([7]),
    addressBytes(frameworkAddress),
    textBytes(module),
    textBytes(name),
    Buffer.from([0]),
    sizedBytes(event.bytes)
  ])
}

function makeNewBlockEvent (ledger: Ledger, block: Block): LedgerEvent {
  const proposer = digestHex(ledger.seed, 'validator', Number(block.height) % 5)
  return {
    version: block.firstVersion,
    creationNumber: 3n,
    account: frameworkAddress,
    sequence: block.height,
    type: ['block', 'NewBlockEvent'],
    data: {
      epoch: String(block.epoch),
      failed_proposer_indices: [],
      hash: block.hash,
      height: String(block.height),
      previous_block_votes_bitvec: '0xf8',
      proposer,
      round: String(block.height),
      time_microseconds: String(block.timestampUsec)
    },
    bytes: Buffer.concat([
      Buffer.from(block.hash.slice(2), 'hex'),
      u64Bytes(block.epoch),
      u64Bytes(block.height),
      u64Bytes(block.height),
      sizedBytes(integerBytes(0xf8n, 1)),
      Buffer.from(proposer.slice(2), 'hex'),
      sequenceBytes([]),
      u64Bytes(block.timestampUsec)
    ])
  }
}
