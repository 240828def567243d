import { type Entry } from '../cache/entry.js'
import { type Memory } from '../cache/memory.js'
import { isToForget, type ToForget } from '../cache/to-share.js'
import { type Chain } from '../ledger/tracker.js'
import { type Accept } from '../reads/accept.js'
import { isOfBlock, keysOf, momentKeyOf, type Read } from '../reads/read.js'

const forms: readonly Accept[] = ['json', 'bcs']
// A fetch under way looks back no further; beyond that it is taken to be meant.
const mostRemembered = 256

/** Forgets what was purged, here and now. */
export class Forgetting {
  readonly #memory: Memory
  #times = 0
  // The newest last; undefined for everything.
  readonly #lately: Array<ToForget | undefined> = []

  constructor (memory: Memory) {
    this.#memory = memory
  }

  /** How many times anything was purged: what was found before it was purged must not be kept after that. */
  get times (): number {
    return this.#times
  }

  /** Whether an entry was meant by anything that was purged since so many times. */
  hasMeant ({ key, block }: Entry, times: number): boolean {
    const since = this.#times - times
    if (since > this.#lately.length) return true
    return since > 0 && this.#lately.slice(-since).some(what => what === undefined || isToForget(what, { key, range: block, blocks: block?.blocks }))
  }

  forget (what: ToForget): void {
    this.#remember(what)
    const { keys, blocks } = what
    for (const key of keys) this.#memory.delete(key)
    for (const { blocks: family, version } of blocks) this.#memory.deleteBlock(family, version)
  }

  /** Forgets what was kept though it was purged since so many times; whether it was. */
  takeBack (entry: Entry | undefined, times: number): boolean {
    if (entry === undefined || !this.hasMeant(entry, times)) return false
    this.#memory.delete(entry.key)
    return true
  }

  forgetAll (): void {
    this.#remember(undefined)
    this.#memory.clear()
  }

  #remember (what: ToForget | undefined): void {
    this.#times++
    this.#lately.push(what)
    if (this.#lately.length > mostRemembered) this.#lately.shift()
  }
}

/** Everything that is kept of a read, in either representation; of a block, with and without its transactions. */
export function everythingOf (read: Read, chain: Chain): ToForget {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = isOfBlock(read) ? [[], flags] : [read.query]
  const all = forms.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, chain)))
  return {
    keys: [...new Set(all.flatMap(keys => [keys.value, keys.text, momentKeyOf(keys)]))],
    blocks: all.flatMap(({ blocks }) => blocks === undefined || read.speaksOf === undefined ? [] : [{ blocks, version: read.speaksOf }])
  }
}
