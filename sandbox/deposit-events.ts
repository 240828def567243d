import { type Address, addressOf } from './address.js'
import { u64Bytes } from './bcs.js'
import { digestBytes } from './seeded-digest.js'
import { type Ledger } from './ledger.js'
import { type AccountEventStream } from './account-event-stream.js'

/** The account whose coin store the deposits go to. */
export const depositAccount = addressOf('cafe')

const blocksPerDeposit = 3

/** Stream with one event per third block, for a coin store that is never destroyed. */
export const depositStream = makeDepositStream(2n, 0, Infinity)

/** Event handle without any event. */
export const streamWithoutEvents = emptyStream(depositAccount, 3n)

/** Streams of deposits: a recreated coin store starts a second stream. */
export function depositStreams ({ recreation }: Ledger): AccountEventStream[] {
  if (recreation === undefined) return [depositStream]
  return [makeDepositStream(2n, 0, recreation.destroyedAt), makeDepositStream(4n, recreation.recreatedAt, Infinity)]
}

/** A stream of an account without any event. */
export function emptyStream (account: Address, creationNumber: bigint): AccountEventStream {
  return { account, creationNumber, countAtHeight: () => 0, eventAt: depositStream.eventAt }
}

/** Number of deposits before a height, as if the coin store had never been destroyed. */
export function depositsBefore (height: number): number {
  return Math.floor(Math.max(0, height - 1) / blocksPerDeposit)
}

/** The sum of the first deposits of the chain, counted as if the coin store had never been destroyed. */
export function depositSum (ledger: Ledger, count: number): bigint {
  const sums = ledger.depositSums
  for (let next = sums.length; next <= count; next++) {
    sums.push(BigInt(String(sums.at(-1))) + amountOf(ledger, next - 1))
  }
  return BigInt(String(sums[count]))
}

function makeDepositStream (creationNumber: bigint, from: number, until: number): AccountEventStream {
  const before = depositsBefore(from)
  return {
    account: depositAccount,
    creationNumber,
    countAtHeight: height => Math.max(0, depositsBefore(Math.min(height + 1, until)) - before),
    eventAt (ledger, sequence) {
      const block = ledger.block((before + sequence + 1) * blocksPerDeposit)
      const amount = amountOf(ledger, before + sequence)
      return {
        // The first transaction emits the event if the block has no user transaction.
        version: block.lastVersion - block.firstVersion >= 2n ? block.firstVersion + 1n : block.firstVersion,
        creationNumber,
        account: depositAccount,
        sequence: BigInt(sequence),
        type: ['coin', 'DepositEvent'],
        data: { amount: String(amount) },
        bytes: u64Bytes(amount)
      }
    }
  }
}

function amountOf ({ seed }: Ledger, index: number): bigint {
  return digestBytes(seed, 'deposit', index).readBigUInt64LE() >> 20n
}
