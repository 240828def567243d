import { flattenString } from '../cache/flatten-string.js'
import { printHeaders } from '../cache/print-headers.js'
import { headerNamesOf, type Position, positionHeaders, specificationFamily } from '../api/position.js'
import { type Tracker } from '../chain/tracker.js'
import { headerFamiliesOf } from './per-response-headers.js'
import { type ProxySettings } from './proxy-context.js'
import { varyOfReads } from './vary.js'

/** Lines that answers have in common, and the same printed. */
export interface CommonHeaders {
  readonly rawHeaders: readonly string[]
  readonly headerText: string | undefined
}

/** What was put together before, and for what. */
interface CachedCommonHeaders extends CommonHeaders {
  readonly cacheStatus: string
  readonly cacheControl: string | undefined
}

/**
 * The header lines that answers of one position have in common, flat: put together once per position, not once per
 * answer.
 */
export class CommonHeaderCache {
  readonly #tracker: Tracker
  readonly #emit: ProxySettings['emit']
  readonly #vary: string
  #position: Position | undefined
  #family: string | undefined
  /** The names that positions are sent under, in one piece each; they change with the family alone. */
  #headerNames: readonly (readonly string[])[] | undefined
  /**
   * What was put together for this position: a handful, so that looking through them is cheaper than tables made anew
   * with each position.
   */
  readonly #cached: CachedCommonHeaders[] = []

  constructor (tracker: Tracker, emit: ProxySettings['emit'], variesByOrigin = false) {
    this.#tracker = tracker
    this.#emit = emit
    this.#vary = variesByOrigin ? `${varyOfReads}, Origin` : varyOfReads
  }

  /** The lines of a known read's answer but for those that belong to the answer. */
  get (position: Position | undefined, cacheStatus: string, cacheControl: string | undefined): CommonHeaders {
    this.#currentHeaderNames()
    if (this.#position !== position) {
      this.#cached.length = 0
      this.#position = position
    }
    for (const made of this.#cached) {
      if (made.cacheStatus === cacheStatus && made.cacheControl === cacheControl) return made
    }
    const rawHeaders = ['cache-status', cacheStatus, 'vary', this.#vary, ...this.positionHeaders(position)]
    if (cacheControl !== undefined) rawHeaders.push('cache-control', cacheControl)
    const made = { cacheStatus, cacheControl, rawHeaders, headerText: printHeaders(rawHeaders) }
    this.#cached.push(made)
    return made
  }

  /** The lines of a position under every name that is sent. */
  positionHeaders (position: Position | undefined): readonly string[] {
    return position === undefined ? [] : this.#currentHeaderNames().flatMap(names => positionHeaders(position, names))
  }

  #currentHeaderNames (): readonly (readonly string[])[] {
    const { family } = this.#tracker
    if (this.#headerNames !== undefined && this.#family === family) return this.#headerNames
    this.#headerNames = headerFamiliesOf(this.#emit, family).map(prefix =>
      headerNamesOf(prefix).map(name => flattenString(prefix === specificationFamily ? name.toUpperCase() : name))
    )
    this.#family = family
    // They bear the names of before.
    this.#cached.length = 0
    return this.#headerNames
  }
}
