import { randomUUID } from 'node:crypto'
import { type SharedStore, type ToForget } from '../cache/shared-store.js'
import { unavailable } from '../reads/refusal.js'
import { type Purge, PurgeLog } from './purge-log.js'

// Each is kept until Redis can be told.
const maxPending = 256

/** Who forgets on this replica's side. */
export interface Forgetful {
  forget (what: ToForget): void
  forgetAll (): void
}

/** What purging needs. */
export interface PurgeOptions {
  readonly store: SharedStore
  readonly log: PurgeLog
  readonly local: Forgetful
  /** Tells the other replicas to look. */
  readonly tell: (chainId: number) => Promise<void>
}

/** A purge that Redis has not been told of yet. */
interface Pending {
  readonly chainId: number
  readonly purge: Purge
}

/** Has every replica forget what one was told to: by a message, and by a log that is read regularly where the message was lost. */
export class Purges {
  readonly #options: PurgeOptions
  readonly #pending: Pending[] = []
  #known: ReadonlySet<string> = new Set()
  #newest: Purge | undefined

  constructor (options: PurgeOptions) {
    this.#options = options
  }

  /** Whether Redis still has what was to be forgotten. */
  get hasPending (): boolean {
    return this.#pending.length > 0
  }

  /** Forgets here at once and everywhere as soon as Redis can be told; whether it could now. */
  async purge (chainId: number, what: ToForget): Promise<boolean> {
    if (this.#pending.length >= maxPending) throw unavailable('too many purges wait for Redis: purge everything, or come again when it answers')
    this.#options.local.forget(what)
    const purge = { id: randomUUID(), keys: what.keys, blocks: what.blocks }
    this.#known = new Set([...this.#known, purge.id])
    this.#pending.push({ chainId, purge })
    await this.deliver().catch(() => {})
    return !this.hasPending
  }

  /** Tells Redis of what it has not been told yet; fails where it cannot be told. */
  async deliver (): Promise<void> {
    for (let next = this.#pending[0]; next !== undefined; next = this.#pending[0]) {
      const { chainId, purge } = next
      await this.#options.store.forget(purge)
      await this.#options.log.add(chainId, purge)
      if (this.#pending[0] === next) this.#pending.shift()
      this.#newest = purge
      await this.#options.tell(chainId).catch(() => {})
    }
  }

  /** Forgets what other replicas purged since the last look. */
  async look (chainId: number): Promise<void> {
    const log = await this.#options.log.read(chainId)
    const known = this.#known
    this.#known = new Set([...log.map(({ id }) => id), ...this.#pending.map(({ purge }) => purge.id)])
    // A log that was lost is begun again with the last that is known.
    if (log.length === 0 && this.#newest !== undefined) return await this.#options.log.add(chainId, this.#newest)
    const [newest] = log
    this.#newest = newest
    const purges = PurgeLog.newTo(known, log)
    if (purges === undefined) this.#options.local.forgetAll()
    for (const purge of purges ?? []) {
      this.#options.local.forget(purge)
      this.#options.store.drop(purge)
    }
  }
}
