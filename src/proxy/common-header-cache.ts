import { flattenHeader } from '../cache/flatten-header.js'
import { printHeaders } from '../cache/print-headers.js'
import { headerNamesOf, headerSuffix, type Position, positionHeaders, ownHeaderFamily } from '../api/position.js'
import { type EncryptionKey, type Tracker } from '../chain/tracker.js'
import { emittedFamiliesOf } from './cursor-and-gas-headers.js'
import { type ProxySettings } from './proxy-context.js'

/** Vary of every known read: an endpoint has two media types and several codings. */
const varyOfReads = 'Accept, Accept-Encoding'

/** Headers that several responses share, flat and as HTTP/1 text. */
export interface CommonHeaders {
  readonly rawHeaders: readonly string[]
  readonly headerText: string | undefined
}

/** Cached headers, and the values that select them. */
interface CachedCommonHeaders extends CommonHeaders {
  readonly cacheStatus: string
  readonly cacheControl: string | undefined
}

/** Caches the headers that all responses at one position share, so they are built once per position. */
export class CommonHeaderCache {
  readonly #tracker: Tracker
  readonly #emit: ProxySettings['emit']
  readonly #vary: string
  #position: Position | undefined
  #family: string | undefined
  #encryptionKey: EncryptionKey | undefined
  /** Position header names of every emitted family; they change only with the family. */
  #headerNames: readonly (readonly string[])[] | undefined
  /** The node's own name alone, because clients know no other. */
  #encryptionKeyNames: readonly string[] = []
  /** Headers at this position: so few that a linear search is cheaper than a new map for each position. */
  readonly #cached: CachedCommonHeaders[] = []

  constructor (tracker: Tracker, emit: ProxySettings['emit'], variesByOrigin = false) {
    this.#tracker = tracker
    this.#emit = emit
    this.#vary = variesByOrigin ? `${varyOfReads}, Origin` : varyOfReads
  }

  /** Returns the headers of a known read's response, except those of its own body. */
  get (position: Position | undefined, cacheStatus: string, cacheControl: string | undefined): CommonHeaders {
    this.#currentHeaderNames()
    const { encryptionKey } = this.#tracker
    if (this.#position !== position || this.#encryptionKey !== encryptionKey) {
      this.#cached.length = 0
      this.#position = position
      this.#encryptionKey = encryptionKey
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

  /** Returns the headers of a position in every emitted family, and the key of its epoch. */
  positionHeaders (position: Position | undefined): readonly string[] {
    if (position === undefined) return []
    const headers = this.#currentHeaderNames().flatMap(names => positionHeaders(position, names))
    const { encryptionKey } = this.#tracker
    if (encryptionKey !== undefined && encryptionKey.epoch === position.head.epoch) {
      for (const name of this.#encryptionKeyNames) headers.push(name, encryptionKey.text)
    }
    return headers
  }

  #currentHeaderNames (): readonly (readonly string[])[] {
    const { family } = this.#tracker
    if (this.#headerNames !== undefined && this.#family === family) return this.#headerNames
    this.#headerNames = emittedFamiliesOf(this.#emit, family).map(prefix =>
      headerNamesOf(prefix).map(name => flattenHeader(prefix === ownHeaderFamily ? name.toUpperCase() : name))
    )
    this.#encryptionKeyNames = family !== undefined && this.#emit.includes('upstream')
      ? [flattenHeader(family + headerSuffix.encryptionKey)]
      : []
    this.#family = family
    // Cached headers use the names of the previous family.
    this.#cached.length = 0
    return this.#headerNames
  }
}

/** Merges Vary names and, when CORS headers depend on it, Origin; undefined when nothing varies. */
export function varyOf (names: string | undefined, variesByOrigin: boolean): string | undefined {
  const byName = new Map<string, string>()
  for (const item of [...names?.split(',') ?? [], ...(variesByOrigin ? ['Origin'] : [])]) {
    const name = item.trim()
    if (name !== '' && !byName.has(name.toLowerCase())) byName.set(name.toLowerCase(), name)
  }
  // `*` covers every name and must be the only one (RFC 9110, section 12.5.5).
  if (byName.has('*')) return '*'
  return byName.size === 0 ? undefined : [...byName.values()].join(', ')
}
