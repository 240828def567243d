import { type ListDependencies } from './dependencies.js'

/** Returns the canonical form of a decoded parameter; undefined if the text cannot be valid. */
export type ParameterParser = (text: string) => string | undefined

/** Parameter in a path, decoded as often as nodes decode it (docs/node-behaviour.md, "Percent-encoding"). */
export interface PathParameter {
  readonly name: string
  readonly read: ParameterParser
  readonly decodings: 1 | 2
}

/**
 * Immutable data by which a response can be stored. `version`: the state at `ledger_version`. `block`, `height`,
 * `transaction` and `hash`: the block or committed transaction that the last path segment names. `list`: transactions
 * from a version on. `page`: events from a sequence number on. `moving`: none, because the response is always moving.
 */
export type PinKind = 'version' | 'block' | 'height' | 'transaction' | 'hash' | 'list' | 'page' | 'moving'

/** Kind of request body, by the endpoints that take it. */
export type BodyKind = 'table_key' | 'raw_key' | 'view'

/** Definition of an endpoint: its route, its parameters, and the reason why responses can or cannot be stored. */
export interface EndpointDefinition<Name extends string = string> {
  readonly name: Name
  readonly method: 'GET' | 'POST'
  /** Path segments: fixed text, or a parameter. */
  readonly path: readonly (string | PathParameter)[]
  readonly query: Readonly<Record<string, ParameterParser>>
  /** Flags whose value `false` means the same as no value, so both are one read. */
  readonly offByDefault: readonly string[]
  readonly takesBody: BodyKind | undefined
  /** True if `start` is a cursor, which may carry the version of a pinned listing. */
  readonly takesCursor: boolean
  /** True if Accept chooses the representation; node info is always JSON (docs/node-behaviour.md, "Accept"). */
  readonly takesAccept: boolean
  readonly keyedBy: PinKind
  /** Error code of a not-found that is a fact of history and can be stored (law 3: only proven history is stored). */
  readonly notFoundCode: string | undefined
  /** True if JSON depends on the release, or the flag with which it does (docs/node-behaviour.md, "Rendering"). */
  readonly renderedByRelease: boolean | 'with_transactions'
  /** True if nodes accept writes by POST on the same path; varve serves only the reads. */
  readonly hasWriteMethod: boolean
  /** State keys that a response depends on; undefined for reads that the ledger's write sets cannot answer for. */
  readonly dependsOn: ListDependencies | undefined
  /** Reason why responses can or cannot be stored, as `explain` prints it. */
  readonly why: string
}
