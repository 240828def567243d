import { dispatch } from '../../../sandbox/dispatch.js'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { type Era } from './chain.js'
import { receivedOf, type ModelRequest } from './request.js'

/** State of a node: its head, its oldest block and its release. */
export interface LedgerMoment {
  readonly height: number
  /** Lowest available height; default: that of an archive. */
  readonly oldest?: number
  /** Default: the last one that was compared. */
  readonly release?: string | undefined
}

const memos = new WeakMap<Era, Map<string, SandboxResponse>>()

/** Returns the response of a healthy node in any state, by the ledger's own functions over the unpruned chain. */
export function expectedResponse (era: Era, sent: ModelRequest, moment: LedgerMoment): SandboxResponse {
  const { archive, settings } = era
  const { height, oldest = 0, release = archive.release } = moment
  const memo = memos.get(era) ?? new Map<string, SandboxResponse>()
  memos.set(era, memo)
  const name = JSON.stringify([sent, height, oldest, release])
  const known = memo.get(name)
  if (known !== undefined) return known
  const { firstVersion, height: oldestBlockHeight } = archive.block(oldest)
  archive.release = release
  const response = dispatch(receivedOf(sent), {
    ledger: archive,
    position: { ...archive.position(height), oldestVersion: firstVersion, oldestBlockHeight }
  }, settings)
  // Empties the memo: requests repeat within a short time or never.
  if (memo.size > 200) memo.clear()
  memo.set(name, response)
  return response
}

/** True if a node rejects the request itself before it reads its ledger, not its subject. */
export function isRequestRejection (status: number, bears: (name: string) => boolean, body: Buffer): boolean {
  if (bears('x-aptos-ledger-version')) return false
  return status === 405 || status === 415 || status === 411 || status === 413 || status === 414 || status === 400 ||
    (status === 404 && (body.length === 0 || body.includes('"web_framework_error"')))
}
