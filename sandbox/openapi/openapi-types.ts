/** Any object of an OpenAPI document. */
export type OpenApiObject = Readonly<Record<string, unknown>>

/** OpenAPI document, typed only as far as the code reads it. */
export interface OpenApiDocument extends OpenApiObject {
  readonly info: { readonly title: string, readonly summary: string }
  /** Operations by path, then by method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, OpenApiObject>>>>
}

/** OpenAPI document in the three formats that nodes serve. */
export interface SpecFormats {
  readonly json: () => string
  readonly yaml: () => string
  readonly page: () => string
}
