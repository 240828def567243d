import { respond } from '../../../sandbox/respond.js'
import { type Ledger } from '../../../sandbox/ledger.js'
import { type Settings } from '../../../sandbox/options.js'
import { type SandboxResponse } from '../../../sandbox/response.js'
import { receivedOf, type RawRequest } from './raw-request.js'

/** State of a node: its head, its oldest block and its release. */
export interface LedgerMoment {
  readonly height: number
  /** Lowest available height; 0 for an archive. */
  readonly oldest: number
  readonly release: string
}

/** Responses of a node in any state, by the ledger's own functions over the unpruned chain. */
export class Oracle {
  readonly archive: Ledger
  readonly #settings: Settings
  readonly #known = new Map<string, SandboxResponse>()

  constructor (archive: Ledger, settings: Settings) {
    this.archive = archive
    this.#settings = settings
  }

  respond (sent: RawRequest, moment: LedgerMoment): SandboxResponse {
    const name = JSON.stringify([sent, moment])
    const known = this.#known.get(name)
    if (known !== undefined) return known
    const position = this.archive.position(moment.height)
    const { firstVersion, height } = this.archive.block(moment.oldest)
    this.archive.release = moment.release
    const reply = respond(receivedOf(sent), {
      ledger: this.archive,
      position: { ...position, oldestVersion: firstVersion, oldestBlockHeight: height }
    }, this.#settings)
    // Empties the memo: requests repeat within a short time or never.
    if (this.#known.size > 200) this.#known.clear()
    this.#known.set(name, reply)
    return reply
  }
}

/** True if a node rejects the request itself before it reads its ledger, not its subject. */
export function isRequestRejection (status: number, bears: (name: string) => boolean, body: Buffer): boolean {
  if (bears('x-aptos-ledger-version')) return false
  return status === 405 || status === 415 || status === 411 || status === 413 || status === 414 || status === 400 ||
    (status === 404 && (body.length === 0 || body.includes('"web_framework_error"')))
}
