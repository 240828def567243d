import { type ResponsePosition } from '../api/position.js'
import { publishedCode, type StateDigest } from '../api/state-key.js'
import { LastTouchedTable } from './last-touched-table.js'
import { type TransactionDigest } from './transaction-digest.js'

/** Version up to which every transaction was read, with what identifies its history. */
export interface FollowedHead {
  readonly version: bigint
  /** Root of the accumulator at that version, which commits to the whole history; undefined if it is unknown. */
  readonly root: string | undefined
}

/** Part of a transaction that knowledge needs. */
export type KnownTransaction = Pick<TransactionDigest, 'version' | 'root' | 'touched' | 'touchesAll'>

/** Relation of a response to a later version; `unknown` is all that is neither proven equal nor known to differ. */
export type Validity = 'unchanged' | 'changed' | 'unknown'

/**
 * Knowledge of which keys the transactions of a range touched (law 12: unknown means changed). Validity is computed at
 * look-up, so no order of fills and pages matters.
 */
export class LedgerKnowledge {
  // Absent while nothing is known, because it takes 16 MB.
  #table: LastTouchedTable | undefined
  readonly #slots: number | undefined
  #head: FollowedHead | undefined
  #confirmed: ResponsePosition | undefined
  #codeTouchedAt = -1n
  #allTouchedAt = -1n

  constructor (slots?: number) {
    this.#slots = slots
  }

  /** Last version that was read; undefined while nothing is known. */
  get head (): FollowedHead | undefined {
    return this.#head
  }

  /** Stamped position that the head was read at; undefined between two pages. */
  get confirmed (): ResponsePosition | undefined {
    return this.#head?.version === this.#confirmed?.position.head.version ? this.#confirmed : undefined
  }

  /** First version whose touches are known. */
  get knownFrom (): bigint {
    return this.#table?.knownFrom ?? 0n
  }

  /** Forgets everything, and knows the transactions after a version from now on. */
  begin (head: FollowedHead): void {
    this.#table ??= new LastTouchedTable(0n, this.#slots)
    this.#table.clear(head.version + 1n)
    this.#head = head
    this.#confirmed = undefined
    this.#codeTouchedAt = this.#allTouchedAt = -1n
  }

  /** Forgets everything, because the chain may be another one. */
  clear (): void {
    this.#table = undefined
    this.#head = undefined
    this.#confirmed = undefined
  }

  /** Takes in the transaction after the head; throws for any other, since a gap would be taken for no change. */
  append ({ version, root, touched, touchesAll }: KnownTransaction): void {
    if (this.#head === undefined || version !== this.#head.version + 1n) {
      throw new RangeError('the transaction does not follow the head')
    }
    for (const key of touched) {
      if (key === publishedCode) this.#codeTouchedAt = version
      else this.#table?.touch(key, version)
    }
    if (touchesAll !== undefined) this.#allTouchedAt = version
    this.#head = { version, root }
  }

  /** Records the stamped position of a response that ends at the head. */
  confirm (stamped: ResponsePosition): void {
    this.#confirmed = stamped
  }

  /** Compares a response that was read at a version with one that would be read at another, up to the head. */
  validityAt (at: bigint, readAt: bigint, dependencies: readonly StateDigest[]): Validity {
    if (this.#head === undefined || at > this.#head.version || readAt > at) return 'unknown'
    if (readAt === at) return 'unchanged'
    if (readAt + 1n < this.knownFrom) return 'unknown'
    let validity: Validity = 'unchanged'
    for (const key of dependencies) {
      const touchedAt = this.#lastTouch(key)
      if (touchedAt <= readAt) continue
      if (touchedAt <= at) return 'changed'
      // An earlier touch may lie before it.
      validity = 'unknown'
    }
    if (this.#allTouchedAt > readAt) return 'unknown'
    return validity
  }

  /**
   * Returns the lowest version from which a response that was read at a version is known to be the same; that version
   * itself if nothing more is known.
   */
  unchangedSince (readAt: bigint, dependencies: readonly StateDigest[]): bigint {
    if (this.#head === undefined || readAt > this.#head.version) return readAt
    // The state after the last unknown transaction is known not to change before the first known touch.
    let since = this.knownFrom === 0n ? 0n : this.knownFrom - 1n
    for (const touchedAt of [this.#allTouchedAt, ...dependencies.map(key => this.#lastTouch(key))]) {
      // An earlier touch may lie between.
      if (touchedAt > readAt) return readAt
      if (touchedAt > since) since = touchedAt
    }
    return since < readAt ? since : readAt
  }

  #lastTouch (key: StateDigest): bigint {
    return key === publishedCode ? this.#codeTouchedAt : this.#table?.lastTouch(key) ?? -1n
  }
}
