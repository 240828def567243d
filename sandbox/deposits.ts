import { type Address, addressOf } from './address.js'
import { u64Bytes } from './bcs.js'
import { digest } from './digest.js'
import { type Ledger } from './ledger.js'
import { type Stream } from './stream.js'

/** The account whose coin store the deposits go to. */
export const depositor = addressOf('cafe')

const period = 3

/** One event for each third block, as long as the coin store is not destroyed. */
export const depositEvents = depositLife(2n, 0, Infinity)

/** A handle that nothing was ever emitted under. */
export const noEvents = emptyStream(depositor, 3n)

/** The lives of the stream of deposits: a second one begins anew where the coin store was made anew. */
export function depositLives ({ remaking }: Ledger): Stream[] {
  if (remaking === undefined) return [depositEvents]
  return [depositLife(2n, 0, remaking.goneAt), depositLife(4n, remaking.backAt, Infinity)]
}

/** A stream of an account without any event. */
export function emptyStream (account: Address, creationNumber: bigint): Stream {
  return { account, creationNumber, countAt: () => 0, eventOf: depositEvents.eventOf }
}

/** How many deposits the chain would have had before a height. */
export function depositsBefore (height: number): number {
  return Math.floor(Math.max(0, height - 1) / period)
}

/** The sum of the first deposits of the chain, counted as if the coin store had never been destroyed. */
export function depositSum (ledger: Ledger, count: number): bigint {
  const sums = ledger.depositSums
  for (let next = sums.length; next <= count; next++) {
    sums.push(BigInt(String(sums.at(-1))) + amountOf(ledger, next - 1))
  }
  return BigInt(String(sums[count]))
}

function depositLife (creationNumber: bigint, from: number, until: number): Stream {
  const before = depositsBefore(from)
  return {
    account: depositor,
    creationNumber,
    countAt: height => Math.max(0, depositsBefore(Math.min(height + 1, until)) - before),
    eventOf (ledger, sequence) {
      const block = ledger.block((before + sequence + 1) * period)
      const amount = amountOf(ledger, before + sequence)
      return {
        // Where the block has no user transaction, its first one tells the event.
        version: block.lastVersion - block.firstVersion >= 2n ? block.firstVersion + 1n : block.firstVersion,
        creationNumber,
        account: depositor,
        sequence: BigInt(sequence),
        type: ['coin', 'DepositEvent'],
        data: { amount: String(amount) },
        bytes: u64Bytes(amount)
      }
    }
  }
}

function amountOf ({ seed }: Ledger, index: number): bigint {
  return digest(seed, 'deposit', index).readBigUInt64LE() >> 20n
}
