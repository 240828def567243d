import { type Address, addressOf } from './address.js'
import { u64Bytes } from './bcs.js'
import { digestBytes } from './seeded-digest.js'
import { type Ledger } from './ledger.js'
import { type AccountEventStream } from './account-event-stream.js'

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

/** Event handle without any event. */
export const streamWithoutEvents = emptyStream(depositAccount, 3n)

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
