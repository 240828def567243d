import { readU64 } from './integer.js'
import { invalidInput, Refusal } from './refusal.js'

/** The request header in which a client says the least version that an answer must have been read at. */
export const minVersionHeader = 'x-varve-min-ledger-version'

/** Reads it; repeated lines come joined by commas, and are no version. */
export function readMinVersion (text: string | readonly string[] | undefined): bigint | undefined {
  if (text === undefined) return undefined
  const version = readU64(String(text))
  if (version === undefined) throw invalidInput(`failed to parse header \`${minVersionHeader}\``)
  return version
}

/** What a node says of a version above its head. */
export function versionNotFound (version: bigint): Refusal {
  return new Refusal(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`)
}
