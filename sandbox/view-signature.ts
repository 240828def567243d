/** Declaration of a view function. */
export interface ViewSignature {
  readonly typeParameterCount: number
  readonly params: readonly string[]
  readonly returns: readonly string[]
}
