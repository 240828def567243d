import { type Space } from '../chain/space.js'
import { type Read } from '../api/read.js'
import { type HarmlessCause } from '../api/response-difference.js'

/** Results of an audit; `rendering` is a difference that a release or upstream setting explains. */
export const auditResults = ['equal', 'different', 'rendering', 'unavailable'] as const

/** One result of the closed list. */
export type AuditResult = typeof auditResults[number]

/** Results of comparing a latest response with the one that following would have served. */
export const observedResults = ['equal', 'different', 'unknown'] as const

/** One result of the closed list. */
export type ObservedResult = typeof observedResults[number]

/** Difference between a cached body and a new upstream response. */
export interface AuditDifference {
  readonly result: 'different' | 'rendering'
  /** True if following would have served the cached body, and only observes. */
  readonly isObserved: boolean
  /** Reads sent upstream and by the client; the two differ for latest reads. */
  readonly reads: readonly Read[]
  readonly space: Space
  /** Part of the response that differs. */
  readonly part: string
  /** Cause by which both responses can be right; undefined if the cached one is wrong. */
  readonly cause: HarmlessCause | undefined
  readonly upstream: string
  readonly cached: Buffer
  readonly fetched: Buffer
}

// Each audit may hold a whole response in memory and competes with client requests.
const maxConcurrentAudits = 8

/** Samples hits for audits, limits concurrent audits, and reports differences. */
export class AuditSampler {
  readonly onDifference: (difference: AuditDifference) => void
  /** Fetches the position and release of an upstream. */
  readonly refreshUpstreamStatus: (upstream: string) => Promise<void>
  #inFlight = 0

  constructor (
    onDifference: (difference: AuditDifference) => void,
    refreshUpstreamStatus: (upstream: string) => Promise<void>
  ) {
    this.onDifference = onDifference
    this.refreshUpstreamStatus = refreshUpstreamStatus
  }

  /** Draws if a hit is audited, so that no pattern of clients escapes. */
  shouldAudit (share: number): boolean {
    return Math.random() < share
  }

  /** Runs an audit, or returns 'unavailable' at the concurrency limit. */
  async run (start: () => Promise<AuditResult>): Promise<AuditResult> {
    if (this.#inFlight >= maxConcurrentAudits) return 'unavailable'
    this.#inFlight++
    try {
      return await start()
    } finally {
      this.#inFlight--
    }
  }
}
