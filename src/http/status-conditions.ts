import { describeChainMismatch } from '../chain/describe-chain-mismatch.js'
import { type RecentSnapshot } from '../metrics/recent-counts.js'
import { isLagging, lagSecondsOf } from '../upstreams/lag.js'
import { type Upstream } from '../upstreams/upstream.js'
import { upstreamStateOf } from '../upstreams/upstream-state.js'
import { type StatusSources } from './status-sources.js'

/** Severity from healthy to worst; the metric `varve_level` is the place in this list. */
export const levels = ['green', 'amber', 'red'] as const

/** One level of the closed list. */
export type Level = typeof levels[number]

/** Something that is wrong, in words. */
export interface StatusCondition {
  readonly level: Exclude<Level, 'green'>
  readonly text: string
}

// Looks at the requests of 10 to 15 s: the step that is not over, and two before.
const recentSteps = 3
// Share of failed requests from which clients count as affected, not a few requests.
const redShare = 0.01
const cacheOnly = 'serving cache only: no upstream is usable'

/** Lists what is wrong in this process, requests aside: the one rule of page, /readyz, /status.json and alerts. */
export function statusConditionsOf (sources: StatusSources): StatusCondition[] {
  const { tracker, upstreamPool: { upstreams }, drain, clients, loadShedder, inFlight, info } = sources
  const isUnknown = tracker.position === undefined
  return [
    ...(isUnknown
      ? [red(describeChainMismatch(upstreams, tracker) ?? 'no upstream has been reached yet')]
      : upstreams.some(({ isUp, isCordoned }) => isUp && !isCordoned)
      ? []
      : [red(cacheOnly)]),
    ...(drain.isDraining ? [amber('draining: open requests are finished, then varve ends')] : []),
    ...(info().isSandbox ? [amber('sandbox')] : []),
    ...upstreams.flatMap(upstream => reasonsOf(upstream, upstreams)).map(amber),
    ...upstreams.filter(({ isCordoned }) => isCordoned).map(({ client }) =>
      amber(`${client.name} is cordoned: it gets no reads until an operator uncordons it`)
    ),
    ...sources.degradedTiers().map(amber),
    ...sources.degradedCertificate().map(amber),
    ...(clients.isFull ? [amber('connection limit reached: new clients replace idle ones or are closed')] : []),
    ...(inFlight.isExhausted
      ? [amber('limits.inFlightMb is used up: large responses are not stored, and misses may be rejected')]
      : []),
    ...(loadShedder.isShedding ? [amber('overloaded: serving cached responses only')] : [])
  ]
}

/** Adds the errors that clients get to the conditions of one process or of all. */
export function withTraffic (
  conditions: readonly StatusCondition[],
  recent: Pick<RecentSnapshot, 'outcomes'>
): StatusCondition[] {
  const { failed, all } = failedIn(recent)
  if (failed === 0) return [...conditions]
  const share = `${failed * 100 < all ? '< 1' : Math.floor(failed / all * 100)} % of requests fail`
  if (conditions.some(({ text }) => text === cacheOnly)) {
    return conditions.map(condition => condition.text === cacheOnly ? red(`serving cache only: ${share}`) : condition)
  }
  const text = `clients get errors from varve: ${share}`
  return [{ level: failed / all >= redShare ? 'red' : 'amber', text }, ...conditions]
}

/** Returns the worst level of some conditions. */
export function levelOf (conditions: readonly StatusCondition[]): Level {
  if (conditions.some(({ level }) => level === 'red')) return 'red'
  return conditions.length > 0 ? 'amber' : 'green'
}

function failedIn ({ outcomes }: Pick<RecentSnapshot, 'outcomes'>): { failed: number, all: number } {
  const sum = (steps: readonly number[]): number => steps.slice(-recentSteps).reduce((total, count) => total + count, 0)
  return {
    failed: sum(outcomes.unavailable),
    all: Object.values(outcomes).reduce((total, steps) => total + sum(steps), 0)
  }
}

function red (text: string): StatusCondition {
  return { level: 'red', text }
}

function amber (text: string): StatusCondition {
  return { level: 'amber', text }
}

function reasonsOf (upstream: Upstream, upstreams: readonly Upstream[]): string[] {
  const { name, limiter } = upstream.client
  const { exhaustedLimit, queued, streams, maxConcurrent } = limiter
  const slots = exhaustedLimit === undefined
    ? []
    : exhaustedLimit === 'requestsPerSecond'
    ? [`${name} has used up its requestsPerSecond: ${queued} requests wait`]
    : [`${name} has no free slot: ${queued} requests wait, ${streams} of ${maxConcurrent} slots are held by streams`]
  const { name: state, reason } = upstreamStateOf(upstream)
  switch (state) {
    case 'up':
      return isLagging(upstream, upstreams)
        ? [`${name} lags by ${Math.floor(lagSecondsOf(upstream, upstreams) ?? 0)} s of ledger time`, ...slots]
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
