import { createHash, randomUUID } from 'node:crypto'
import { type Logger } from 'pino'
import { type AuditDifference } from '../proxy/audit-sampler.js'
import { invalidationOfRead, type LocalInvalidator } from '../proxy/local-invalidator.js'
import { encodePurgeRequest } from '../api/purge-request.js'
import { type Read, targetOf } from '../api/read.js'
import { logRateLimit } from './log.js'
import { type SharedBackend } from './store-backend.js'

/** Receivers of an audit's findings. */
export interface AuditInvalidatorOptions {
  readonly invalidator: LocalInvalidator
  readonly shared: SharedBackend | undefined
  /** Purges a wrong entry in the other processes of this varve too. */
  readonly purgeOthers: (body: Buffer) => void
  readonly log: Logger
  readonly now: () => number
}

// Long table keys are cut; most fit, so an operator can repeat the request by hand.
const maxShownChars = 500
// Limits the log when an audit finds many differences (law 10: nothing grows without bound).
const differenceRate = { lines: 10, perMs: 1000 }

/**
 * Logs audit differences and invalidates what was served: wrong data on every replica, a changed rendering only here
 * and in lower tiers.
 */
export function auditDifferenceListener (options: AuditInvalidatorOptions): (difference: AuditDifference) => void {
  const { purgeOthers, log } = options
  const mayLog = logRateLimit(options.now, differenceRate)
  return difference => {
    const { result, reads } = difference
    const suppressed = mayLog()
    if (suppressed !== undefined) logDifference(suppressed === 0 ? log : log.child({ suppressed }), difference)
    for (const read of difference.isObserved ? [] : reads) {
      invalidate(options, difference, read).then(() => {
        // Purges other processes last, or they could read the wrong entry from a lower tier again.
        if (result === 'different') purgeOthers(encodePurgeRequest(read))
      }, () => {})
    }
  }
}

async function invalidate (
  { invalidator, shared, log }: AuditInvalidatorOptions,
  { result, space }: AuditDifference,
  read: Read
): Promise<void> {
  const invalidation = invalidationOfRead(read, space)
  try {
    await Promise.all([
      invalidator.invalidate(space, invalidation),
      // The purge log is bounded, so changed renderings, which are harmless, stay out of it (law 8: rendering can
      // change, history cannot).
      result === 'different'
        ? shared?.purge(space, { id: randomUUID(), request: encodePurgeRequest(read).toString() })
        : shared?.store.drop(space, invalidation)
    ])
  } catch (error) {
    if (result === 'different') {
      log.error(
        { reason: (error as Error).message },
        'invalidation in a lower tier failed: purge everything when the tier is up'
      )
    }
  }
}

function logDifference (
  log: Logger,
  { result, isObserved, reads: [read], part, cause, upstream, cached, fetched }: AuditDifference
): void {
  const fields = {
    ...(read !== undefined && describeRead(read)),
    upstream,
    part,
    ...(cause !== undefined && { cause }),
    cached: digestOf(cached),
    fetched: digestOf(fetched)
  }
  const message = isObserved
    ? 'following would have served another response'
    : result === 'different'
    ? 'cached response differs from the upstream: invalidated everywhere'
    : 'cached response differs in rendering: invalidated here and in lower tiers'
  if (result === 'different') log.error(fields, message)
  else log.warn(fields, message)
}

function describeRead (read: Read): object {
  return {
    endpoint: read.endpoint.name,
    target: targetOf(read),
    body: read.body?.sent.slice(0, maxShownChars),
    accept: read.accept
  }
}

function digestOf (body: Buffer): string {
  return `sha256:${createHash('sha256').update(body).digest('hex')}`
}
