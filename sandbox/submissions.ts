import { type Address, addressOf } from './address.js'
import { digestHex } from './digests.js'
import { type UserRequest } from './records.js'

/** A transaction that a client submitted; the sandbox executes transfers of the chain's own asset. */
export interface SubmittedTransaction {
  /** Hash of its bytes, as on a real chain. */
  readonly hash: string
  /** The signed transaction in BCS. */
  readonly bytes: Buffer
  readonly request: UserRequest
  readonly sender: Address
  readonly sequence: bigint
  readonly expirationSecs: bigint
  readonly gasPrice: bigint
  /** Undefined for a call of anything else, which fails. */
  readonly transfer: { readonly to: Address, readonly amount: bigint } | undefined
}

/** A submitted transaction that a block contains. */
export interface CommittedSubmission {
  readonly transaction: SubmittedTransaction
  readonly version: bigint
  /** Text of `vm_status` for a transaction that failed. */
  readonly failure: string | undefined
}

/** Account that pays for new accounts: see `POST /sandbox/fund`. */
export const faucet = addressOf('42')

/** Initial balance of the accounts that have a primary store from the start. */
export const initialAssets = 10n ** 12n

/** Gas that a submitted transaction uses. */
export const gasOfSubmission = 6n

/** Result of adding a transaction. */
export type Admission = 'added' | 'known' | 'other_payload' | 'full'

interface AccountChange {
  readonly version: bigint
  /** Sums up to this version. */
  readonly balance: bigint
  readonly sends: bigint
  readonly isSend: boolean
}

const maxPending = 1_000
const maxPerBlock = 100
// Their effects stay, so their number is bounded.
const maxCommitted = 100_000

/** Transactions that clients submitted: the mempool, and what the committed ones changed. */
export class Submissions {
  // By hash, in order of arrival.
  readonly #pending = new Map<string, SubmittedTransaction>()
  readonly #byHash = new Map<string, CommittedSubmission>()
  readonly #byVersion = new Map<bigint, CommittedSubmission>()
  readonly #changes = new Map<Address, AccountChange[]>()
  // Digests of all that was committed up to a version.
  readonly #history: Array<{ readonly version: bigint, readonly digest: string }> = []

  /** Adds a transaction that was validated. */
  add (transaction: SubmittedTransaction): Admission {
    if (this.#pending.has(transaction.hash)) return 'known'
    for (const { sender, sequence } of this.#pending.values()) {
      if (sender === transaction.sender && sequence === transaction.sequence) return 'other_payload'
    }
    if (this.#pending.size >= maxPending || this.#byHash.size >= maxCommitted) return 'full'
    this.#pending.set(transaction.hash, transaction)
    return 'added'
  }

  /** Finds a transaction by hash; it has a version once a block contains it. */
  find (hash: string): { readonly transaction: SubmittedTransaction, readonly version?: bigint } | undefined {
    const transaction = this.#pending.get(hash)
    return transaction === undefined ? this.#byHash.get(hash) : { transaction }
  }

  /** Returns the submitted transaction of a version; undefined for any other transaction. */
  at (version: bigint): CommittedSubmission | undefined {
    return this.#byVersion.get(version)
  }

  /** Returns a digest of the submitted transactions up to a version; empty without any. */
  historyAt (version: bigint): string {
    return this.#history.findLast(change => change.version <= version)?.digest ?? ''
  }

  /** Takes the transactions of the next block; those with a later sequence number stay, expired ones go. */
  takeReady (blockSecs: bigint): SubmittedTransaction[] {
    const next = new Map<Address, bigint>()
    const ready: SubmittedTransaction[] = []
    for (const one of [...this.#pending.values()].sort((a, b) => Number(a.sequence - b.sequence))) {
      if (ready.length >= maxPerBlock) break
      const sequence = next.get(one.sender) ?? this.sendsOf(one.sender)
      if (one.expirationSecs <= blockSecs) this.#pending.delete(one.hash)
      else if (one.sequence === sequence) {
        next.set(one.sender, sequence + 1n)
        this.#pending.delete(one.hash)
        ready.push(one)
      }
    }
    return ready
  }

  /** Executes a transaction at the next version. */
  commit (transaction: SubmittedTransaction, version: bigint): void {
    const { sender, gasPrice, transfer, hash } = transaction
    const fee = gasOfSubmission * gasPrice
    const failure = transfer === undefined
      ? 'LINKER_ERROR'
      : transfer.amount + fee > this.spendable(sender)
      ? 'Move abort in 0x1::fungible_asset: EINSUFFICIENT_BALANCE(0x10004): ' +
        'Insufficient balance to withdraw or transfer.'
      : undefined
    const sent = failure === undefined ? transfer?.amount ?? 0n : 0n
    this.#change(sender, version, -fee - sent, true)
    if (failure === undefined && transfer !== undefined) this.#change(transfer.to, version, sent, false)
    const committed = { transaction, version, failure }
    this.#byHash.set(hash, committed)
    this.#byVersion.set(version, committed)
    this.#history.push({ version, digest: digestHex(this.#history.at(-1)?.digest ?? '', version, hash) })
  }

  /** Runs as if a transaction were committed at a version, which no block contains. */
  simulate<T> (transaction: SubmittedTransaction, version: bigint, run: () => T): T {
    const touched = [transaction.sender, ...transaction.transfer === undefined ? [] : [transaction.transfer.to]]
    const before = touched.map(address => ({ address, changes: [...this.#changes.get(address) ?? []] }))
    this.commit(transaction, version)
    try {
      return run()
    } finally {
      this.#byHash.delete(transaction.hash)
      this.#byVersion.delete(version)
      this.#history.pop()
      for (const { address, changes } of before) {
        if (changes.length === 0) this.#changes.delete(address)
        else this.#changes.set(address, changes)
      }
    }
  }

  /** Balance from which an account can send; only the faucet has one that no submitted transaction gave it. */
  spendable (address: Address): bigint {
    return (address === faucet ? initialAssets : 0n) + (this.#changes.get(address)?.at(-1)?.balance ?? 0n)
  }

  /** Number of submitted transactions that an account has sent, up to a version or in all. */
  sendsOf (address: Address, version?: bigint): bigint {
    return this.#lastChange(address, version)?.sends ?? 0n
  }

  /** Number of transactions of an account that wait for a block. */
  pendingSendsOf (address: Address): bigint {
    return BigInt([...this.#pending.values()].filter(({ sender }) => sender === address).length)
  }

  /** Change of an account's balance by submitted transactions up to a version; undefined without any. */
  balanceChangeAt (address: Address, version: bigint): bigint | undefined {
    return this.#lastChange(address, version)?.balance
  }

  /** Returns the version of the submitted transaction that an account sent under a sequence number. */
  versionOfSend (address: Address, sequence: bigint): bigint | undefined {
    return this.#changes.get(address)?.find(({ isSend, sends }) => isSend && sends === sequence + 1n)?.version
  }

  #lastChange (address: Address, version: bigint | undefined): AccountChange | undefined {
    const changes = this.#changes.get(address)
    return version === undefined ? changes?.at(-1) : changes?.findLast(change => change.version <= version)
  }

  #change (address: Address, version: bigint, balance: bigint, isSend: boolean): void {
    const changes = this.#changes.get(address) ?? []
    const last = changes.at(-1)
    changes.push({
      version,
      balance: (last?.balance ?? 0n) + balance,
      sends: (last?.sends ?? 0n) + (isSend ? 1n : 0n),
      isSend
    })
    this.#changes.set(address, changes)
  }
}
