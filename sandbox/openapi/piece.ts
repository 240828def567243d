/** A piece of an OpenAPI document. */
export type Piece = Readonly<Record<string, unknown>>

/** A whole document, as far as something here reads it. */
export interface Document extends Piece {
  readonly info: { readonly title: string, readonly summary: string }
  /** By path, then by method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, Piece>>>>
}

/** What a node says of itself, as JSON, as YAML, and as a page for people. */
export interface Spec {
  readonly json: () => string
  readonly yaml: () => string
  readonly page: () => string
}
