import { addressBytes, addressOf, shortAddress, type Address } from './address.js'
import { integerBytes, sequenceBytes, sizedBytes, textBytes, u64Bytes } from './bcs.js'
import { digestHex, digestBytes } from './digests.js'
import { type Block, epochBlocks, type Ledger } from './ledger.js'
import { type EventRecord } from './records.js'

/** An event of a stream. */
export interface LedgerEvent {
  readonly version: bigint
  readonly creationNumber: bigint
  readonly account: Address
  readonly sequence: bigint
  readonly type: readonly [module: string, name: string]
  readonly data: Readonly<Record<string, unknown>>
  readonly bytes: Buffer
}

/** Events of one handle, in sequence. */
export interface AccountEventStream {
  readonly account: Address
  readonly creationNumber: bigint
  /** Number of events once the chain has reached a height. */
  readonly countAtHeight: (height: number) => number
  readonly eventAt: (ledger: Ledger, sequence: number) => LedgerEvent
}

/** Returns the number of events of a stream at a version, without an event that comes later in the same block. */
export function eventCountAt (ledger: Ledger, stream: AccountEventStream, version: bigint): number {
  const count = stream.countAtHeight(Number(ledger.blockOf(version).height))
  return count > 0 && stream.eventAt(ledger, count - 1).version > version ? count - 1 : count
}

/** The account whose coin store the deposits go to. */
export const depositAccount = addressOf('cafe')

const blocksPerDeposit = 3

/** Stream with one event per third block. */
export const depositStream: AccountEventStream = {
  account: depositAccount,
  creationNumber: 2n,
  countAtHeight: height => Math.max(0, Math.floor(height / blocksPerDeposit)),
  eventAt (ledger, sequence) {
    const block = ledger.block((sequence + 1) * blocksPerDeposit)
    const amount = amountOf(ledger, sequence)
    return {
      // The first transaction emits the event if the block has no user transaction.
      version: block.lastVersion - block.firstVersion >= 2n ? block.firstVersion + 1n : block.firstVersion,
      creationNumber: 2n,
      account: depositAccount,
      sequence: BigInt(sequence),
      type: ['coin', 'DepositEvent'],
      data: { amount: String(amount) },
      bytes: u64Bytes(amount)
    }
  }
}

/** A stream of an account without any event. */
export function emptyStream (account: Address, creationNumber: bigint): AccountEventStream {
  return { account, creationNumber, countAtHeight: () => 0, eventAt: depositStream.eventAt }
}

/** The sum of the first deposits of the chain. */
export function depositSum (ledger: Ledger, count: number): bigint {
  const sums = ledger.depositSums
  for (let next = sums.length; next <= count; next++) {
    sums.push(BigInt(String(sums.at(-1))) + amountOf(ledger, next - 1))
  }
  return BigInt(String(sums[count]))
}

function amountOf ({ seed }: Ledger, index: number): bigint {
  return digestBytes(seed, 'deposit', index).readBigUInt64LE() >> 20n
}

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
