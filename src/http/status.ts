import { type Tracker } from '../chain/tracker.js'
import { type RecentSnapshot } from '../metrics/recent.js'
import { describeChainMismatch } from '../chain/chain-mismatch.js'
import { type Upstream } from '../upstreams/upstream.js'
import { upstreamStateOf } from '../upstreams/upstream-state.js'
import { type DrainFlag } from './drain-flag.js'

/** Release and mode of this varve. */
export interface VarveInfo {
  readonly version: string
  readonly mode: 'serve' | 'observe'
  /** True if the upstream is the embedded sandbox, whose chain is made up. */
  readonly isSandbox: boolean
}

/** Sources of readiness and status. */
export interface StatusSources {
  readonly tracker: Tracker
  readonly upstreamPool: { readonly upstreams: readonly Upstream[] }
  readonly drain: DrainFlag
  readonly clients: { readonly isFull: boolean }
  readonly loadShedder: { readonly isShedding: boolean }
  readonly info: () => VarveInfo
  readonly recent: { readonly snapshot: RecentSnapshot }
  readonly memory: { readonly entries: number, readonly bytes: number, readonly maxBytes: number }
  /** Undefined if no Redis is configured. */
  readonly redis: { readonly isUp: boolean, readonly fault: string } | undefined
  /** Reasons why the Redis tier is degraded. */
  readonly degradedRedis: () => readonly string[]
  /** Reasons why the certificate needs attention. */
  readonly degradedCertificate: () => readonly string[]
}

/** Body of /readyz. */
export interface Readiness {
  readonly ready: boolean
  readonly degraded: readonly string[]
}

/** Computes readiness. An upstream that is down only degrades it: hits are served without one (law 6). */
export function readinessOf (
  { tracker, upstreamPool, drain, clients, loadShedder, info, degradedRedis, degradedCertificate }: StatusSources
): Readiness {
  return {
    ready: !drain.isDraining && tracker.position !== undefined,
    degraded: [
      ...(info().isSandbox ? ['sandbox'] : []),
      ...(drain.isDraining ? ['stopping'] : []),
      ...(tracker.position === undefined
        ? [describeChainMismatch(upstreamPool.upstreams, tracker) ?? 'no upstream has been reached yet']
        : []),
      ...upstreamPool.upstreams.flatMap(degradedReasonsOf),
      ...degradedRedis(),
      ...degradedCertificate(),
      ...(clients.isFull ? ['connection limit reached: new clients replace idle ones or are closed'] : []),
      ...(loadShedder.isShedding ? ['overloaded: serving cached responses only'] : [])
    ]
  }
}

/** Builds /status.json; u64s are texts, since JSON numbers lose digits (law 2). */
export function statusOf (sources: StatusSources) {
  const { tracker, upstreamPool, info, recent, memory, redis } = sources
  const { position } = tracker
  return {
    ...readinessOf(sources),
    varve: info(),
    chain: tracker.chain,
    position: position && {
      version: String(position.head.version),
      oldestVersion: String(position.oldest.version),
      blockHeight: String(position.head.blockHeight),
      oldestBlockHeight: String(position.oldest.blockHeight),
      timestampUsec: String(position.head.timestampUsec),
      ageMs: Math.round(tracker.ageMs)
    },
    upstreams: upstreamPool.upstreams.map(upstream => upstreamStatusOf(upstream, position?.head.version)),
    tiers: {
      memory: { entries: memory.entries, bytes: memory.bytes, maxBytes: memory.maxBytes },
      redis: redisTierStatusOf(redis)
    },
    recent: recent.snapshot
  }
}

/** State of the Redis tier, with the reason if it is down. */
export interface RedisTierStatus {
  readonly state: 'off' | 'up' | 'down'
  readonly reason?: string
}

function redisTierStatusOf (redis: StatusSources['redis']): RedisTierStatus {
  if (redis === undefined) return { state: 'off' }
  return redis.isUp ? { state: 'up' } : { state: 'down', reason: redis.fault }
}

function upstreamStatusOf (upstream: Upstream, servedVersion: bigint | undefined) {
  const { client: { name, release, budget }, window, health } = upstream
  const state = upstreamStateOf(upstream)
  return {
    name,
    state: state.name,
    reason: state.reason,
    circuit: health.isCircuitOpen ? 'open' : 'closed',
    release,
    version: window && String(window.head),
    oldestVersion: window && String(window.oldest),
    lagVersions: window && servedVersion !== undefined
      ? String(servedVersion > window.head ? servedVersion - window.head : 0n)
      : undefined,
    latencyMs: roundedMs(health.latencyMs),
    p95Ms: roundedMs(health.readLatency.p95),
    inFlight: budget.inFlight,
    waiting: budget.queued
  }
}

/** Status of one process. */
export type ProcessStatus = ReturnType<typeof statusOf>

function roundedMs (ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : Math.round(ms * 100) / 100
}

function degradedReasonsOf (upstream: Upstream): string[] {
  const { name } = upstream.client
  const { name: state, reason } = upstreamStateOf(upstream)
  switch (state) {
    case 'up':
      return []
    case 'unknown':
      return [`${name} has not answered yet`]
    case 'backing_off':
      return [`${name} is rate limiting varve: ${reason}`]
    case 'down':
      return [`${name} is down: ${reason}`]
    case 'quarantined':
      return [`${name} is quarantined: ${reason}`]
  }
}
