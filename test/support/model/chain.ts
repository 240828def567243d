import { dispatch } from '../../../sandbox/serve-request.js'
import { Ledger, type PrunedEventsMode } from '../../../sandbox/ledger.js'
import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { defaultSettings, type Settings } from '../../../sandbox/options.js'
import { type ModelRequest, receivedOf } from './request.js'

/** One chain of those that have had the same name, from its first version to its head. */
export interface Era {
  readonly index: number
  readonly startUsec: bigint
  /** Settings of its upstreams. */
  readonly settings: Settings
  /** Unpruned history of the chain. */
  readonly archive: Ledger
}

/** Forms of responses that only a ledger can be set to. */
export interface LedgerForms {
  readonly prunedEvents?: PrunedEventsMode
  readonly blockBcs?: 'option' | 'bare'
}

const firstUsec = 1_660_247_629_760_032n
// Separates the clocks of two eras by more than any run takes.
const dayUsec = 86_400_000_000n
// Keeps the order of heads: growth before varve meets the new chain must not change which is ahead.
const leastBehind = 80
const leastAhead = 20

/** The upstreams' chain: it grows, and each reset replaces it by another of the same name. */
export class Chain {
  readonly #settings: Settings
  readonly #forms: LedgerForms
  readonly #eras: [Era, ...Era[]]

  constructor (settings: Partial<Settings>, forms: LedgerForms = {}) {
    this.#settings = { ...defaultSettings, ...settings, blockMs: 0 }
    this.#forms = forms
    this.#eras = [this.#era(0, this.#settings.blocks)]
  }

  /** Newest era. */
  get current (): Era {
    return this.#eras.at(-1) ?? this.#eras[0]
  }

  get eras (): readonly Era[] {
    return this.#eras
  }

  /** Adds blocks to every era that an upstream may still be on. */
  grow (blocks = 1): void {
    for (const { archive } of this.#eras.slice(-2)) archive.grow(blocks)
  }

  /** Starts another chain of the same name with more or fewer blocks, and versions ahead or behind in proportion. */
  startEra (more: number): Era {
    const { archive } = this.current
    for (let attempt = 0;; attempt++) {
      const era = this.#era(this.#eras.length, archive.height + 1 + more, attempt)
      const versions = Number(era.archive.head.version - archive.head.version)
      if (more < 0 ? versions > -leastBehind : versions < leastAhead) continue
      this.#eras.push(era)
      return era
    }
  }

  /** Returns the era of a timestamp on a response. */
  eraAt (timestampUsec: bigint): Era | undefined {
    return this.#eras[Number((timestampUsec - firstUsec) / dayUsec)]
  }

  #era (index: number, blocks: number, attempt = 0): Era {
    const settings = { ...this.#settings, seed: this.#settings.seed + 1000 * index + attempt, blocks }
    const startUsec = firstUsec + BigInt(index) * dayUsec
    const archive = new Ledger({ ...settings, startUsec, prunedBlocks: 0, windowBlocks: 100_000_000 })
    return { index, startUsec, settings, archive: Object.assign(archive, this.#forms) }
  }
}

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
export function isRequestRejection ({ status, headers, body }: SandboxResponse): boolean {
  if (headers.some(([name]) => name === 'x-aptos-ledger-version')) return false
  return [400, 405, 411, 413, 414, 415].includes(status) ||
    (status === 404 && (body.length === 0 || body.includes('"web_framework_error"')))
}
