import { matchEndpoint } from '../../../src/api/read-request.js'
import { type ModelRequest } from './request.js'

// Mark of a pinned cursor as documented: `varve` and the version in hex, before the node's own cursor.
const prefix = Buffer.from('varve').toString('hex')
const form = new RegExp(`^${prefix}([0-9a-f]{16})((?:[0-9a-f]{2})+)$`)

/** A request as an upstream gets it, and the version in its cursor. */
export interface UnpinnedRequest {
  readonly request: ModelRequest
  readonly pinned: bigint | undefined
  /** True if the request names two versions, which no upstream request can. */
  readonly isContradictory: boolean
}

/** Puts a version in front of a node's own cursor. */
export const pin = (version: bigint, own: string): string => `${prefix}${version.toString(16).padStart(16, '0')}${own}`

/** Splits a cursor into its version and the node's own cursor. */
export function splitPinnedCursor (cursor: string): { readonly version: bigint, readonly own: string } | undefined {
  const [, version, own] = form.exec(cursor.toLowerCase()) ?? []
  return version === undefined || own === undefined ? undefined : { version: BigInt(`0x${version}`), own }
}

/** Resolves a pinned cursor: a read at its version, from the node's own cursor on. */
export function unpinRequest (sent: ModelRequest): UnpinnedRequest {
  const at = sent.target.indexOf('?')
  const plain = { request: sent, pinned: undefined, isContradictory: false }
  if (at === -1 || !isListing(sent)) return plain
  const params = new URLSearchParams(`?${sent.target.slice(at + 1)}`)
  const pinned = splitPinnedCursor(params.get('start') ?? '')
  if (pinned === undefined) return plain
  const given = params.get('ledger_version')
  // Leaves everything else unchanged: a node may reject it.
  const pieces = sent.target.slice(at + 1).split('&').map(piece =>
    new URLSearchParams(`?${piece}`).has('start') ? `start=${pinned.own}` : piece
  )
  if (given === null) pieces.push(`ledger_version=${pinned.version}`)
  const isContradictory = given !== null && /^\+?\d+$/.test(given) && BigInt(given.replace('+', '')) !== pinned.version
  return {
    request: { ...sent, target: `${sent.target.slice(0, at)}?${pieces.join('&')}` },
    pinned: pinned.version,
    isContradictory
  }
}

/** True if the response may have the cursor of a listing that began without version. */
export function startsListing (sent: ModelRequest): boolean {
  return isListing(sent) && !new URLSearchParams(`?${sent.target.split('?').slice(1).join('?')}`).has('ledger_version')
}

const isListing = ({ target, method }: ModelRequest): boolean =>
  matchEndpoint(target, method)?.endpoint.name === 'account_modules'
