import { type SandboxResponse } from '../../../sandbox/make-response.js'
import { depositStream, streamWithoutEvents, newBlockStream, newEpochStream } from '../../../sandbox/events.js'
import { type Era } from '../model/chain.js'
import { expectedResponse } from '../model/oracle.js'
import { type ReadSpec } from '../model/read-spec.js'
import { type ServedPosition } from '../model/served-position.js'
import { judgeError } from './judge-error.js'
import { type PoolRead } from './pool-world.js'
import { type SimulatedPool } from './simulated-pool.js'

type EventsSpec = ReadSpec & { kind: 'events' }

const eventStreams = {
  blocks: newBlockStream,
  epochs: newEpochStream,
  deposits: depositStream,
  nothing: streamWithoutEvents,
  'wrong type': streamWithoutEvents,
  'wrong field': streamWithoutEvents
}

/** Checks a page that is not the stream at the response's position: a pruned upstream may omit its beginning. */
export function judgeEvents (
  given: PoolRead & { readonly spec: EventsSpec },
  pool: SimulatedPool,
  era: Era,
  served: ServedPosition | undefined
): string | undefined {
  const { spec, response, request, span, servedFloor } = given
  const right = expectedResponse(era, request, { height: served?.height ?? era.archive.height })
  // Trusts missing or unreadable pages only from the upstream with the longest history (law 11: "gone" is a fact).
  const isExcused = response.status >= 500 &&
    (pool.wasStalled(span) || ((spec.form === 'bcs' || isEmptyPage(right)) && !pool.wereAllUp(era, span)))
  // Treats a lagging upstream like a pruned one: its empty page is not trusted either.
  const mustGive = response.status >= 500 && !pool.wereAllUp(era, span)
  // Requires more in BCS, where the page of a lagging full history looks like that of a pruned one ahead.
  const has = hasEvents(spec, era, mustGive)
  const leastHead = spec.form === 'bcs' ? servedFloor.versions[era.index] ?? -1n : -1n
  if (!isExcused && pool.hadCapableUpstream(era, span, window => has(window) && window.head >= leastHead)) {
    return `not the page at this position, ${response.status} for ${right.status}: a live upstream had its events`
  }
  if (given.wasCached(era)) return `${response.status} for a page that was cached`
  switch (response.status) {
    case 200:
      return spec.form === 'bcs' || isTail(response.bytes, right)
        ? undefined
        : 'a page with other events than the stream has'
    case 410:
      return undefined
    case 500:
      return response.bytes.includes('pruned') ? undefined : judgeError(given, pool, era)
    // Checks the kind of error: it was just established that no capable upstream lived.
    default:
      return judgeError(given, pool, era, () => false)
  }
}

/** True if an upstream has the events of a page; for the last ones this depends on its head. */
export function hasEvents (
  { stream, start, limit }: EventsSpec,
  { archive, settings }: Era,
  mustGive = false
): (window: { oldest: bigint, head: bigint }) => boolean {
  const { countAtHeight, eventAt } = eventStreams[stream]
  return ({ oldest, head }) => {
    const count = countAtHeight(Number(archive.blockOf(head).height))
    const first = start ?? Math.max(0, count - (limit ?? settings.eventsDefault))
    return first < count ? oldest <= eventAt(archive, first).version : !mustGive
  }
}

function isEmptyPage ({ status, body }: SandboxResponse): boolean {
  return status === 200 && body.toString() === '[]'
}

function isTail (bytes: Buffer, right: SandboxResponse): boolean {
  const [page, whole] = [bytes, right.body].map(text =>
    (JSON.parse(text.toString()) as unknown[]).map(event => JSON.stringify(event))
  )
  return page !== undefined && whole !== undefined &&
    page.every((event, at) => whole[whole.length - page.length + at] === event)
}
