import { createHash } from 'node:crypto'
import { type Logger } from 'pino'
import { type ToForget } from '../cache/shared-store.js'
import { type Chain } from '../chain/tracker.js'
import { type Difference } from '../proxy/auditor.js'
import { type Forgetting } from '../proxy/forgetting.js'
import { purgeOf } from '../api/purge-request.js'
import { type Read, targetOf } from '../api/read.js'
import { type Sharing } from './sharing.js'

/** Who is told of what an audit has found. */
export interface DroppingParts {
  readonly forgetting: Forgetting
  readonly sharing: () => Sharing | undefined
  /** Tells the other processes of this varve, by a purge that they are to follow. */
  readonly onDropped: ((purge: Buffer) => void) | undefined
  readonly log: Logger
  readonly now: () => number
}

// A table key can be long; this is enough to ask for most of them by hand.
const longestShown = 500
// Whatever goes wrong, the log does not grow faster than this.
const linesASecond = 10

/**
 * Says what an audit has found, and has it forgotten: what is wrong by all, what is only rendered otherwise here and in
 * Redis, to be read afresh.
 */
export function dropperOf (parts: DroppingParts): (difference: Difference) => void {
  const { forgetting, onDropped, log } = parts
  const mayTell = lineLimit(parts.now)
  return difference => {
    const { result, reads, chain } = difference
    const unsaid = mayTell()
    if (unsaid !== undefined) tell(unsaid === 0 ? log : log.child({ unsaid }), difference)
    for (const read of reads) {
      const whatOf = forgetting.everythingOf(read, chain)
      forgetting.forget(whatOf(chain))
      dropShared(parts, difference, whatOf).then(() => {
        // Only then the other processes: before that one could find it there again.
        if (result === 'different') onDropped?.(purgeOf(read))
      }, () => {})
    }
  }
}

async function dropShared (
  { sharing, log }: DroppingParts,
  { result, chain }: Difference,
  whatOf: (chain: Chain) => ToForget
): Promise<void> {
  try {
    // The log of purges has no room to spare for what harms nobody.
    if (result === 'different') await sharing()?.purge(chain, whatOf)
    else await sharing()?.store.forget(whatOf(chain))
  } catch (error) {
    if (result === 'different') {
      log.error(
        { reason: (error as Error).message },
        'Redis could not be told to forget what is wrong: purge everything when it answers'
      )
    }
  }
}

/** How many lines had to be left out before this one; undefined for one that has to be. */
function lineLimit (now: () => number): () => number | undefined {
  let secondBeganAtMs = -Infinity
  let lines = 0
  let unsaid = 0
  return () => {
    if (now() - secondBeganAtMs >= 1000) [secondBeganAtMs, lines] = [now(), 0]
    if (++lines > linesASecond) {
      unsaid++
      return undefined
    }
    const before = unsaid
    unsaid = 0
    return before
  }
}

function tell (log: Logger, { result, reads: [read], where, node, kept, said }: Difference): void {
  const line = { ...(read !== undefined && shown(read)), node, where, kept: digestOf(kept), said: digestOf(said) }
  if (result === 'different') log.error(line, 'what was kept is not what the node says: it is forgotten everywhere')
  else {
    log.warn(
      line,
      'what was kept is what another release, or a node with other settings, says: it is forgotten, to be read afresh'
    )
  }
}

function shown (read: Read): object {
  return {
    endpoint: read.endpoint.name,
    target: targetOf(read),
    body: read.body?.sent.slice(0, longestShown),
    accept: read.accept
  }
}

function digestOf (body: Buffer): string {
  return `sha256:${createHash('sha256').update(body).digest('hex')}`
}
