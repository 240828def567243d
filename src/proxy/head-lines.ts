import { flat } from '../cache/flat.js'
import { printed } from '../cache/printed.js'
import { namesOf, type Position, positionLines, specificationFamily } from '../api/position.js'
import { type Tracker } from '../chain/tracker.js'
import { familiesOf } from './own-lines.js'
import { type ProxySettings } from './parts.js'
import { varyOfReads } from './vary.js'

/** Lines that answers have in common, and the same printed. */
export interface Head {
  readonly lines: readonly string[]
  readonly text: string | undefined
}

/** What was put together before, and for what. */
interface Made extends Head {
  readonly cacheStatus: string
  readonly cacheControl: string | undefined
}

/**
 * The header lines that answers of one position have in common, flat: put together once per position, not once per
 * answer.
 */
export class HeadLines {
  readonly #tracker: Tracker
  readonly #emit: ProxySettings['emit']
  readonly #vary: string
  #position: Position | undefined
  #family: string | undefined
  /** The names that positions are sent under, in one piece each; they change with the family alone. */
  #names: readonly (readonly string[])[] | undefined
  /**
   * What was put together for this position: a handful, so that looking through them is cheaper than tables made anew
   * with each position.
   */
  readonly #made: Made[] = []

  constructor (tracker: Tracker, emit: ProxySettings['emit'], variesByOrigin = false) {
    this.#tracker = tracker
    this.#emit = emit
    this.#vary = variesByOrigin ? `${varyOfReads}, Origin` : varyOfReads
  }

  /** The lines of a known read's answer but for those that belong to the answer. */
  of (position: Position | undefined, cacheStatus: string, cacheControl: string | undefined): Head {
    this.#namesNow()
    if (this.#position !== position) {
      this.#made.length = 0
      this.#position = position
    }
    for (const made of this.#made) {
      if (made.cacheStatus === cacheStatus && made.cacheControl === cacheControl) return made
    }
    const lines = ['cache-status', cacheStatus, 'vary', this.#vary, ...this.positionLines(position)]
    if (cacheControl !== undefined) lines.push('cache-control', cacheControl)
    const made = { cacheStatus, cacheControl, lines, text: printed(lines) }
    this.#made.push(made)
    return made
  }

  /** The lines of a position under every name that is sent. */
  positionLines (position: Position | undefined): readonly string[] {
    return position === undefined ? [] : this.#namesNow().flatMap(names => positionLines(position, names))
  }

  #namesNow (): readonly (readonly string[])[] {
    const { family } = this.#tracker
    if (this.#names !== undefined && this.#family === family) return this.#names
    this.#names = familiesOf(this.#emit, family).map(prefix =>
      namesOf(prefix).map(name => flat(prefix === specificationFamily ? name.toUpperCase() : name))
    )
    this.#family = family
    // They bear the names of before.
    this.#made.length = 0
    return this.#names
  }
}
