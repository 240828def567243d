import { type SharedStore } from '../../cache/shared-store.js'
import { isToForget } from '../../cache/to-share.js'
import { maxPurges } from '../../cluster/purge-log.js'
import { type Purge } from '../../chain/words.js'
import { type Shelf } from './shelf.js'

/** What was purged in the Redis that is filled, before that or meanwhile: none of it is to come back by a file. */
export class Purged {
  readonly #shelf: Shelf
  readonly #store: Pick<SharedStore, 'forget'>
  readonly #chainId: number
  #purges: readonly Purge[] = []
  #isFirst = true

  constructor (shelf: Shelf, store: Pick<SharedStore, 'forget'>, chainId: number) {
    this.#shelf = shelf
    this.#store = store
    this.#chainId = chainId
  }

  /** Whether an entry is one of what was purged. */
  has (entry: Parameters<typeof isToForget>[1]): boolean {
    return this.#purges.some(purge => isToForget(purge, entry))
  }

  /**
   * Looks at the log again; what was purged since the last look may have been brought in after that, and is forgotten
   * once more.
   */
  async look (): Promise<void> {
    const { patience, purges: log } = this.#shelf
    const { purges, isFull } = await patience.ask('control', async () => await log.read(this.#chainId))
    const since = purges.filter(({ id }) => this.#purges.every(known => known.id !== id))
    const isFirst = this.#isFirst
    this.#isFirst = false
    this.#purges = [...since, ...this.#purges]
    if (isFirst) return
    if (isFull && since.length === purges.length) {
      throw new Error(
        `more than ${maxPurges} purges came meanwhile, and what was brought in may be of them: purge ` +
          'everything, or purge those once more'
      )
    }
    for (const purge of since) {
      await patience.ask('delete', async () => {
        await this.#store.forget(purge)
      })
    }
  }
}
