import { type Entry } from '../cache/entry.js'
import { type Memory } from '../cache/memory.js'
import { type StreamNames } from './events/stream-names.js'
import { isToForget, type StreamEvents, type ToForget } from '../cache/to-share.js'
import { type Chain } from '../chain/tracker.js'
import { type Accept } from '../api/accept.js'
import { eventsOf, isOfBlock, keysOf, momentKeyOf, pagesOf, type Read } from '../api/read.js'

const forms: readonly Accept[] = ['json', 'bcs']
// A fetch under way looks back no further; beyond that it is taken to be meant.
const mostRemembered = 256

/** Forgets what was purged, here and now. */
export class Forgetting {
  readonly #memory: Memory
  readonly #names: StreamNames
  #times = 0
  // The newest last; undefined for everything.
  readonly #lately: Array<ToForget | undefined> = []

  constructor (memory: Memory, names: StreamNames) {
    this.#memory = memory
    this.#names = names
  }

  /** How many times anything was purged: what was found before it was purged must not be kept after that. */
  get times (): number {
    return this.#times
  }

  /**
   * Whether an entry was meant by anything that was purged since so many times; a page also by the path that it was
   * asked for by.
   */
  hasMeant ({ key, block, page }: Entry, times: number, askedAs?: StreamEvents): boolean {
    const since = this.#times - times
    if (since > this.#lately.length) return true
    const names = { key, range: block, blocks: block?.blocks }
    const isMeant = (what: ToForget): boolean =>
      isToForget(what, { ...names, page }) || (askedAs !== undefined && isToForget(what, { ...names, page: askedAs }))
    return since > 0 && this.#lately.slice(-since).some(what => what === undefined || isMeant(what))
  }

  /**
   * Everything that is kept of a read, on whatever chain: to which stream its path leads is known now, and nobody may
   * know it any more once this is forgotten.
   */
  everythingOf (read: Read, chain: Chain): (on: Chain) => ToForget {
    const stream = this.#names.lastOf(pagesOf(chain, read.path))?.slice(pagesOf(chain, '').length)
    return on => everythingOf(read, on, stream)
  }

  forget (what: ToForget): void {
    const { keys, blocks, pages = [] } = what
    // Here a path may lead to a stream that whoever told of this knew nothing of.
    const all = [
      ...pages,
      ...pages.flatMap(page => ({ ...page, stream: this.#names.lastOf(page.stream) ?? page.stream }))
    ]
    this.#remember({ keys, blocks, pages: all })
    for (const key of keys) {
      this.#memory.delete(key)
      this.#names.forget(key)
    }
    for (const { blocks: family, version } of blocks) this.#memory.deleteBlock(family, version)
    for (const { stream, ...events } of all) this.#memory.deletePages(stream, events)
  }

  /** Forgets what was kept though it was purged since so many times; whether it was. */
  takeBack (entry: Entry | undefined, times: number, askedAs?: StreamEvents): boolean {
    if (entry === undefined || !this.hasMeant(entry, times, askedAs)) return false
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

/**
 * Everything that is kept of a read, in either representation; of a block, with and without its transactions; of a page
 * of events, each page of its stream that has any of them, and where its path leads: whoever knows that says which
 * stream it is.
 */
export function everythingOf (read: Read, chain: Chain, stream?: string): ToForget {
  const flags = read.endpoint.offByDefault.map(flag => [flag, 'true'] as const)
  const queries = isOfBlock(read) ? [[], flags] : [read.query]
  const all = forms.flatMap(accept => queries.map(query => keysOf({ ...read, accept, query }, chain)))
  const { page } = read
  const paths = page === undefined || page.limit === 0n
    ? []
    : [...new Set([read.path, stream ?? read.path])].map(path => pagesOf(chain, path))
  return {
    keys: [...new Set([...all.flatMap(keys => [keys.value, keys.text, momentKeyOf(keys)]), ...paths])],
    ...(page !== undefined && paths.length > 0 && { pages: paths.map(path => ({ stream: path, ...eventsOf(page) })) }),
    blocks: all.flatMap(({ blocks }) =>
      blocks === undefined || read.speaksOf === undefined ? [] : [{ blocks, version: read.speaksOf }]
    )
  }
}
