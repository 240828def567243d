import { createHash } from 'node:crypto'
import { type Logger } from 'pino'
import { type ToForget } from '../cache/shared-store.js'
import { type Chain } from '../ledger/tracker.js'
import { type Difference } from '../proxy/auditor.js'
import { everythingOf, type Forgetting } from '../proxy/forgetting.js'
import { purgeOf } from '../reads/purge-request.js'
import { targetOf } from '../reads/read.js'
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

/** Says what an audit has found, and has the read forgotten everywhere. */
export function dropperOf ({ forgetting, sharing, onDropped, log, now }: DroppingParts): (difference: Difference) => void {
  let secondBeganAtMs = -Infinity
  let lines = 0
  let unsaid = 0
  return difference => {
    if (now() - secondBeganAtMs >= 1000) [secondBeganAtMs, lines] = [now(), 0]
    if (++lines <= linesASecond) {
      tell(unsaid === 0 ? log : log.child({ unsaid }), difference)
      unsaid = 0
    } else unsaid++
    const { read, chain } = difference
    const whatOf = (on: Chain): ToForget => everythingOf(read, on)
    forgetting.forget(whatOf(chain))
    // Only then the other processes: before that one could find it there again.
    Promise.resolve(sharing()?.purge(chain, whatOf)).catch(() => {}).then(() => { onDropped?.(purgeOf(read)) }, () => {})
  }
}

function tell (log: Logger, { result, read, where, node, kept, said }: Difference): void {
  const line = { endpoint: read.endpoint.name, target: targetOf(read), body: read.body?.sent.slice(0, longestShown), accept: read.accept, node, where, kept: digestOf(kept), said: digestOf(said) }
  if (result === 'different') log.error(line, 'what was kept is not what the node says: it is forgotten everywhere')
  else log.warn(line, 'what was kept is what another release, or a node with other settings, says: it is forgotten, to be read afresh')
}

function digestOf (body: Buffer): string {
  return `sha256:${createHash('sha256').update(body).digest('hex')}`
}
