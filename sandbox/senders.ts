import { type Address, addressOf } from './address.js'
import { type Block, type Ledger } from './ledger.js'

/** The known accounts that send transactions, in turn. */
export const senders: readonly Address[] = [addressOf('a11ce'), addressOf('b0b')]

/** The known account that sends a transaction, and which of its own it is; undefined where another account sends it. */
export function sentAt (
  ledger: Ledger,
  block: Block,
  version: bigint
): { sender: Address, sequence: bigint } | undefined {
  if (version !== block.firstVersion + 1n) return undefined
  const index = sendingsBefore(ledger, Number(block.height))
  const sender = senders[index % senders.length]
  if (sender === undefined || ledger.sendings[index] !== Number(block.height)) return undefined
  return { sender, sequence: BigInt(Math.floor(index / senders.length)) }
}

/** How many transactions an account had sent once a version was through: the number that its next one carries. */
export function sequenceAt (ledger: Ledger, address: Address, version: bigint): bigint {
  const turn = senders.indexOf(address)
  if (turn < 0) return 0n
  const block = ledger.blockOf(version)
  const sent = sendingsBefore(ledger, Number(block.height) + (version > block.firstVersion ? 1 : 0))
  return BigInt(Math.max(0, Math.ceil((sent - turn) / senders.length)))
}

/** The version of a transaction of a known account, which must have been sent. */
export function sentVersion (ledger: Ledger, address: Address, sequence: bigint): bigint {
  return ledger.block(Number(ledger.sendings[Number(sequence) * senders.length + senders.indexOf(address)]))
    .firstVersion + 1n
}

function sendingsBefore ({ sendings }: Ledger, height: number): number {
  let low = 0
  let high = sendings.length
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (Number(sendings[middle]) < height) low = middle + 1
    else high = middle
  }
  return low
}
