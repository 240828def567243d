import { readU64 } from './integer.js'
import { invalidInputError, ErrorResponse } from './error-response.js'

/** The request header in which a client says the least version that an answer must have been read at. */
export const minVersionHeader = 'x-varve-min-ledger-version'

/** Reads it; repeated lines come joined by commas, and are no version. */
export function readMinVersion (text: string | readonly string[] | undefined): bigint | undefined {
  if (text === undefined) return undefined
  const version = readU64(String(text))
  if (version === undefined) throw invalidInputError(`failed to parse header \`${minVersionHeader}\``)
  return version
}

/** What a node says of a version above its head. */
export function versionNotFound (version: bigint): ErrorResponse {
  return new ErrorResponse(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`)
}
