import { readU64 } from './integer.js'
import { invalidInputError, ErrorResponse } from './error-response.js'

/** Request header with the lowest version that a moving response must have been read at. */
export const minVersionHeader = 'x-varve-min-ledger-version'

/** Reads the header; throws an ErrorResponse if it is invalid or repeated, since commas join repeated headers. */
export function readMinVersion (text: string | readonly string[] | undefined): bigint | undefined {
  if (text === undefined) return undefined
  const version = readU64(String(text))
  if (version === undefined) throw invalidInputError(`failed to parse header \`${minVersionHeader}\``)
  return version
}

/** Error of a node for a version above its head. */
export function versionNotFoundError (version: bigint): ErrorResponse {
  return new ErrorResponse(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`)
}

/** Returns true for the error of a version above the head. */
export function isVersionNotFoundError ({ code }: ErrorResponse): boolean {
  return code === 'version_not_found'
}
