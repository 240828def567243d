import { isLagging, lagSecondsOf, type LedgerStamp } from '../upstreams/ranking.js'
import { type Upstream } from '../upstreams/upstream.js'
import { cacheOnly, pagingConditionsIn, pagingConditionsOf, type RecentRequests } from './paging-conditions.js'
import { amber, red, type StatusCondition } from './severity.js'
import { type StatusSources } from './status-sources.js'

export { levelOf } from './severity.js'

// Looks at the requests of 10 to 15 s: the step that is not over, and two before.
const errorSteps = 3
// Looks at five minutes, as the cards of the status page do.
const rejectedSteps = 60
// Share of failed requests from which clients count as affected, not a few requests.
const redShare = 0.01
// Share of rejected requests that is more than single clients with mistakes, as in VarveClientsLimited.
const rejectedShare = 0.05
// Fewer rejected requests are a person who tries something.
const minRejected = 5

/** Lists what is wrong in this process, requests aside: the one rule of page, /readyz, /status.json and alerts. */
export function statusConditionsOf (sources: StatusSources): StatusCondition[] {
  const { tracker, upstreamPool: { upstreams }, drain, clients, loadShedder, inFlight, info } = sources
  return [
    ...pagingConditionsOf(sources),
    ...(drain.isDraining ? [amber('draining: open requests are finished, then varve ends')] : []),
    ...(info().isSandbox ? [amber('sandbox')] : []),
    ...upstreams.flatMap(upstream => reasonsOf(upstream, upstreams, tracker.servedStamp)).map(amber),
    ...upstreams.filter(({ isCordoned }) => isCordoned).map(({ client }) =>
      amber(`${client.name} is cordoned: it gets no reads until an operator uncordons it`)
    ),
    ...sources.degradedTiers().map(amber),
    ...(clients.isFull ? [amber('connection limit reached: new clients replace idle ones or are closed')] : []),
    ...(inFlight.isExhausted
      ? [amber('limits.inFlightMb is used up: large responses are not stored, and misses may be rejected')]
      : []),
    ...(loadShedder.isShedding ? [amber('overloaded: serving cached responses only')] : [])
  ]
}

/** Adds what recent requests say to the conditions of one process or of all. */
export function withTraffic (conditions: readonly StatusCondition[], recent: RecentRequests): StatusCondition[] {
  return [...withErrors(conditions, recent), ...pagingConditionsIn(recent), ...rejectedIn(recent)]
}

/** Adds the errors that clients get from varve. */
function withErrors (conditions: readonly StatusCondition[], recent: RecentRequests): StatusCondition[] {
  const { all, unavailable: failed } = sumsOf(recent, errorSteps)
  if (failed === 0) return [...conditions]
  const share = `${shareOf(failed, all)} of requests fail`
  if (conditions.some(({ text }) => text === cacheOnly)) {
    return conditions.map(condition => condition.text === cacheOnly ? red(`serving cache only: ${share}`) : condition)
  }
  const text = `clients get errors from varve: ${share}`
  return [{ level: failed / all >= redShare ? 'red' : 'amber', text }, ...conditions]
}

/** Names many rejected requests: they are no errors of varve, so nothing else here shows them. */
function rejectedIn (recent: RecentRequests): StatusCondition[] {
  const { all, limited, rejected } = sumsOf(recent, rejectedSteps)
  const isMany = (count: number): boolean => count >= minRejected && count >= rejectedShare * all
  return [
    ...(isMany(limited)
      ? [
        amber(
          `${shareOf(limited, all)} of requests are rejected with 429: usually a proxy in front is missing in ` +
            'trustProxy, so all its clients share one limit'
        )
      ]
      : []),
    ...(isMany(rejected)
      ? [
        amber(
          `${shareOf(rejected, all)} of requests are rejected with 4xx by varve: ` +
            'varve_requests_total{outcome="rejected"} has them by status'
        )
      ]
      : [])
  ]
}

function sumsOf (
  { outcomes }: RecentRequests,
  steps: number
): { all: number, unavailable: number, limited: number, rejected: number } {
  const sum = (counts: readonly number[]): number => counts.slice(-steps).reduce((total, count) => total + count, 0)
  return {
    all: Object.values(outcomes).reduce((total, counts) => total + sum(counts), 0),
    unavailable: sum(outcomes.unavailable),
    limited: sum(outcomes.limited),
    rejected: sum(outcomes.rejected)
  }
}

function shareOf (part: number, all: number): string {
  return `${part * 100 < all ? '< 1' : Math.floor(part / all * 100)} %`
}

function reasonsOf (
  upstream: Upstream,
  upstreams: readonly Upstream[],
  served: LedgerStamp | undefined
): string[] {
  const { name, limiter } = upstream.client
  const { exhaustedLimit, queued, streams, maxConcurrent } = limiter
  const slots = exhaustedLimit === undefined
    ? []
    : exhaustedLimit === 'requestsPerSecond'
    ? [`${name} has used up its requestsPerSecond: ${queued} requests wait`]
    : [`${name} has no free slot: ${queued} requests wait, ${streams} of ${maxConcurrent} slots are held by streams`]
  const { state, stateReason: reason } = upstream
  switch (state) {
    case 'up':
      return isLagging(upstream, upstreams, served)
        ? [`${name} lags by ${Math.floor(lagSecondsOf(upstream, upstreams, served) ?? 0)} s of ledger time`, ...slots]
        : slots
    case 'unknown':
      return [`${name} has not responded yet`]
    case 'backing_off':
      return [`${name} is rate limiting varve: ${reason}`]
    case 'down':
      return [`${name} is down: ${reason}`]
    case 'quarantined':
      return [`${name} is quarantined: ${reason}`]
  }
}
