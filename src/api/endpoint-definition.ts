/** Reads one parameter's decoded text into its canonical spelling; undefined for what cannot be valid. */
export type ReadParameter = (text: string) => string | undefined

/**
 * A parameter in a path, decoded as often as nodes decode it: docs/node-behaviour.md, "Percent-encoding".
 */
export interface PathParameter {
  readonly name: string
  readonly read: ReadParameter
  readonly decodings: 1 | 2
}

/**
 * What an answer can be kept by. `version`: the state at the ledger version in the query; `block`: the block of the
 * version that the path ends in; `height`: the block of the height that it ends in; `transaction`: the one of the
 * version that it ends in; `hash`: the one of the hash that it ends in, once it is committed; `list`: transactions from
 * a version on; `page`: events from a sequence number on; `moment`: nothing, it is of the moment.
 */
export type Keying = 'version' | 'block' | 'height' | 'transaction' | 'hash' | 'list' | 'page' | 'moment'

/** What a read asks its question with, where it takes a body. */
export type BodyKind = 'table_key' | 'raw_key' | 'view'

/** A row of the table: where a read lives, what it takes, what its answer can be kept by, and why that stays true. */
export interface EndpointDefinition<Name extends string = string> {
  readonly name: Name
  readonly method: 'GET' | 'POST'
  /** The segments of its path: fixed ones as they stand, the others with what reads them. */
  readonly path: readonly (string | PathParameter)[]
  readonly query: Readonly<Record<string, ReadParameter>>
  /** Flags that are off when they are left out, so that saying so is the same read. */
  readonly offByDefault: readonly string[]
  readonly takesBody: BodyKind | undefined
  /** Whether its `start` is a cursor, which may carry the version that a listing goes on at. */
  readonly takesCursor: boolean
  /** True if Accept chooses the representation; node info is always JSON (docs/node-behaviour.md, "Accept"). */
  readonly takesAccept: boolean
  readonly keyedBy: Keying
  /** The code of a not-found that is a fact of history too: what is not there at a version never was (law 3). */
  readonly notFoundCode: string | undefined
  /**
   * True if JSON depends on the release, or the flag with which it does: docs/node-behaviour.md, "Rendering".
   */
  readonly renderedByRelease: boolean | 'with_transactions'
  /** Whether nodes take writes under the same path, by another method; these are none of varve's reads. */
  readonly hasWriteMethod: boolean
  /** Why what is kept of it stays true, or why nothing is kept: for people. */
  readonly why: string
}
