import { flat } from '../cache/flat.js'
import { type Position, positionLines, specificationFamily } from '../ledger/position.js'
import { type Tracker } from '../ledger/tracker.js'
import { familiesOf } from './own-lines.js'
import { type ProxySettings } from './parts.js'

const vary = 'Accept, Accept-Encoding'

/** The header lines that answers of one position have in common, flat: put together once per position, not once per answer. */
export class HeadLines {
  readonly #tracker: Tracker
  readonly #emit: ProxySettings['emit']
  #position: Position | undefined
  #family: string | undefined
  // By Cache-Status and Cache-Control, each of which is one of few.
  readonly #lines = new Map<string, Map<string | undefined, readonly string[]>>()

  constructor (tracker: Tracker, emit: ProxySettings['emit']) {
    this.#tracker = tracker
    this.#emit = emit
  }

  /** The lines of a known read's answer but for those that belong to the answer. */
  of (position: Position | undefined, cacheStatus: string, cacheControl: string | undefined): readonly string[] {
    const { family } = this.#tracker
    if (this.#position !== position || this.#family !== family) {
      this.#lines.clear()
      this.#position = position
      this.#family = family
    }
    let byControl = this.#lines.get(cacheStatus)
    if (byControl === undefined) this.#lines.set(cacheStatus, byControl = new Map<string | undefined, readonly string[]>())
    let lines = byControl.get(cacheControl)
    if (lines === undefined) {
      const control = cacheControl === undefined ? [] : ['cache-control', cacheControl]
      byControl.set(cacheControl, lines = ['cache-status', cacheStatus, 'vary', vary, ...this.positionLines(position), ...control].map(flat))
    }
    return lines
  }

  /** The lines of a position under every name that is sent. */
  positionLines (position: Position | undefined): readonly string[] {
    if (position === undefined) return []
    return familiesOf(this.#emit, this.#tracker.family).flatMap(prefix => {
      const named = positionLines(position, prefix)
      return prefix === specificationFamily ? named.map((text, at) => at % 2 === 0 ? text.toUpperCase() : text) : named
    })
  }
}
