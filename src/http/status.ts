import { type Tracker } from '../chain/tracker.js'
import { type RecentTold } from '../metrics/recent.js'
import { chainMismatch } from '../chain/chain-mismatch.js'
import { type Member } from '../upstreams/member.js'
import { stateOf } from '../upstreams/node-state.js'
import { type Drain } from './drain.js'

/** Which varve this is, and what it was told to be. */
export interface About {
  readonly version: string
  readonly mode: 'serve' | 'observe'
  /** Whether its upstream is the embedded node, whose chain is made up. */
  readonly isSandbox: boolean
}

/** What an operator asks about first is read from these. */
export interface StatusParts {
  readonly tracker: Tracker
  readonly fleet: { readonly members: readonly Member[] }
  readonly drain: Drain
  readonly clients: { readonly isFull: boolean }
  readonly lag: { readonly isShedding: boolean }
  readonly about: () => About
  readonly recent: { readonly told: RecentTold }
  readonly memory: { readonly entries: number, readonly bytes: number, readonly maxBytes: number }
  /** Whether Redis answers, and why it is not used; undefined where none is configured. */
  readonly redis: { readonly isUp: boolean, readonly fault: string } | undefined
  /** What is wrong with the tier that replicas share. */
  readonly degradedShare: () => readonly string[]
  /** What is wrong with the certificate of the public listener. */
  readonly degradedCertificate: () => readonly string[]
}

/** Whether reads can be answered, and what is not as it should be. */
export interface Readiness {
  readonly ready: boolean
  readonly degraded: readonly string[]
}

/**
 * History is served with every node gone, so a node that is down is a degradation and no reason to send clients away.
 */
export function readinessOf (
  { tracker, fleet, drain, clients, lag, about, degradedShare, degradedCertificate }: StatusParts
): Readiness {
  return {
    ready: !drain.isDraining && tracker.position !== undefined,
    degraded: [
      ...(about().isSandbox ? ['sandbox'] : []),
      ...(drain.isDraining ? ['stopping'] : []),
      ...(tracker.position === undefined
        ? [chainMismatch(fleet.members, tracker) ?? 'no node has been reached yet']
        : []),
      ...fleet.members.flatMap(complaintOf),
      ...degradedShare(),
      ...degradedCertificate(),
      ...(clients.isFull ? ['there is no room for more connections of clients'] : []),
      ...(lag.isShedding ? ['there is too much to do: only what is kept is served'] : [])
    ]
  }
}

/**
 * The same with where the chain stands, how each node is, what is kept and how the last requests were answered: u64s as
 * text, since JSON readers lose their digits.
 */
export function statusOf (parts: StatusParts) {
  const { tracker, fleet, about, recent, memory, redis } = parts
  const { position } = tracker
  return {
    ...readinessOf(parts),
    varve: about(),
    chain: tracker.chain,
    position: position && {
      version: String(position.head.version),
      oldestVersion: String(position.oldest.version),
      blockHeight: String(position.head.blockHeight),
      oldestBlockHeight: String(position.oldest.blockHeight),
      timestampUsec: String(position.head.timestampUsec),
      ageMs: Math.round(tracker.ageMs)
    },
    upstreams: fleet.members.map(member => upstreamOf(member, position?.head.version)),
    tiers: {
      memory: { entries: memory.entries, bytes: memory.bytes, maxBytes: memory.maxBytes },
      redis: redisTierOf(redis)
    },
    recent: recent.told
  }
}

/** Whether there is a shared store, whether it answers, and why not. */
export interface RedisTier {
  readonly state: 'off' | 'up' | 'down'
  readonly reason?: string
}

function redisTierOf (redis: StatusParts['redis']): RedisTier {
  if (redis === undefined) return { state: 'off' }
  return redis.isUp ? { state: 'up' } : { state: 'down', reason: redis.fault }
}

function upstreamOf (member: Member, shown: bigint | undefined) {
  const { node: { name, release, budget }, window, health } = member
  const state = stateOf(member)
  return {
    name,
    state: state.name,
    reason: state.reason,
    circuit: health.isOpen ? 'open' : 'closed',
    release,
    version: window && String(window.head),
    oldestVersion: window && String(window.oldest),
    lagVersions: window && shown !== undefined ? String(shown > window.head ? shown - window.head : 0n) : undefined,
    latencyMs: roundedMs(health.tookMs),
    p95Ms: roundedMs(health.reads.p95),
    underWay: budget.underWay,
    waiting: budget.waiting
  }
}

/** What one process tells of itself. */
export type Status = ReturnType<typeof statusOf>

function roundedMs (ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 100) / 100
}

function complaintOf (member: Member): string[] {
  const { name } = member.node
  const { name: state, reason } = stateOf(member)
  switch (state) {
    case 'up':
      return []
    case 'unknown':
      return [`${name} has not been heard of yet`]
    case 'resting':
      return [`${name} has asked for rest`]
    case 'down':
      return [`${name} does not answer: ${reason}`]
    case 'fenced':
      return [`${name} is not asked: ${reason}`]
  }
}
