import { type Entry } from '../cache/entry.js'
import { type Memory } from '../cache/memory.js'
import { type ToForget } from '../cache/shared-store.js'
import { type Chain } from '../ledger/tracker.js'
import { type Accept } from '../reads/accept.js'
import { keysOf, momentKeyOf, type Read } from '../reads/read.js'

const forms: readonly Accept[] = ['json', 'bcs']

/** Forgets what was purged, here and now. */
export class Forgetting {
  readonly #memory: Memory
  #times = 0

  constructor (memory: Memory) {
    this.#memory = memory
  }

  /** How many times anything was purged: what was found before a purge must not be kept after it. */
  get times (): number {
    return this.#times
  }

  forget ({ keys, blocks }: ToForget): void {
    this.#times++
    for (const key of keys) this.#memory.delete(key)
    for (const { blocks: family, version } of blocks) this.#memory.deleteBlock(family, version)
  }

  /** Forgets what was kept in spite of a purge. */
  takeBack (entry: Entry | undefined): void {
    if (entry !== undefined) this.#memory.delete(entry.key)
  }

  forgetAll (): void {
    this.#times++
    this.#memory.clear()
  }
}

/** Everything that is kept of a read, in either representation; of a block, with and without its transactions. */
export function everythingOf (read: Read, chain: Chain): ToForget {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = read.endpoint.keyedBy === 'block' ? [[], flags] : [read.query]
  const all = forms.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, chain)))
  return {
    keys: [...new Set(all.flatMap(keys => [keys.value, keys.text, momentKeyOf(keys)]))],
    blocks: all.flatMap(({ blocks }) => blocks === undefined || read.speaksOf === undefined ? [] : [{ blocks, version: read.speaksOf }])
  }
}
