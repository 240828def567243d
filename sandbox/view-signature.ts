import { type FunctionAbi } from './records.js'

/** Declaration of a view function. */
export interface ViewSignature {
  readonly typeParameterCount: number
  readonly params: readonly string[]
  readonly returns: readonly string[]
}

/** Builds the ABI of a view function. */
export function makeViewFunctionAbi (
  name: string,
  { typeParameterCount, params, returns }: ViewSignature
): FunctionAbi {
  return {
    name,
    visibility: 'public',
    is_entry: false,
    is_view: true,
    generic_type_params: Array.from({ length: typeParameterCount }, () => ({ constraints: [] })),
    params: [...params],
    return: [...returns]
  }
}
