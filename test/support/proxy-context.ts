import { type Test } from 'tap'
import { pino } from 'pino'
import { MemoryTier } from '../../src/cache/memory-tier.js'
import { VersionWaits } from '../../src/chain/version-waits.js'
import { LowestRecentRequest } from '../../src/proxy/pruned-reads.js'
import { Tracker, ChainEvents } from '../../src/chain/tracker.js'
import { UpstreamPool } from '../../src/upstreams/upstream-pool.js'
import { HeadPoller } from '../../src/upstreams/head-pollers.js'
import { UpstreamSoftwareReleases } from '../../src/upstreams/upstream-software-releases.js'
import { InFlightBytes } from '../../src/upstreams/in-flight-bytes.js'
import { AuditSampler } from '../../src/proxy/audit.js'
import { LocalInvalidator } from '../../src/proxy/local-invalidator.js'
import { type Outcome, outcomeNameOf } from '../../src/proxy/outcomes.js'
import { readState, serveRead } from '../../src/proxy/serve-read.js'
import { type Read } from '../../src/api/read.js'
import { matchEndpoint, readRequest } from '../../src/api/read-request.js'
import { LocalBuckets } from '../../src/clients/token-buckets.js'
import { type Config, configSchema } from '../../src/config/schema.js'
import { Metrics } from '../../src/metrics/metrics.js'
import { ConnectionLimiter } from '../../src/http/connection-limiter.js'
import { RequestIds } from '../../src/http/http-exchange.js'
import { type ListenerContext, listenerContextOf as contextOf, type ProxyParts } from '../../src/http/send-response.js'
import { type Sandbox, type SandboxOptions, startSandbox } from '#sandbox'
import { upstreamAt } from './upstream.js'

/** Configuration as a user writes it. */
type ConfigInput = Parameters<typeof configSchema.parse>[0] & object

/** Creates the parts of a proxy in front of an upstream, without listeners, for tests of the order of steps. */
export function contextAt (t: Test, url: string, clock = { ms: 0 }): { context: ProxyParts } {
  const nothing = (): void => {}
  const events = new ChainEvents()
  const tracker = new Tracker(undefined, () => 0, events)
  const versionWaits = new VersionWaits(tracker, () => {
    poll.poll().catch(nothing)
  }, () => performance.now())
  events.servedHeadAdvanced.subscribe(() => {
    versionWaits.finishReached()
  })
  const memory = new MemoryTier(1e6, { wrote: nothing, evicted: nothing }, () => clock.ms)
  const upstream = upstreamAt(t, url, {
    timeoutMs: 5000,
    maxConcurrent: 64,
    maxBufferedBytes: 1e6,
    now: () => clock.ms
  })
  const releases = new UpstreamSoftwareReleases(() => clock.ms, () => upstream.isUp)
  const upstreamPool = new UpstreamPool({
    onOldest: nothing,
    onAllQuarantined: async () => {}
  })
  upstreamPool.replaceUpstreams([upstream], undefined)
  const onRelease = (release: string): void => {
    upstream.release = release
    releases.record(release)
  }
  const poll = new HeadPoller({
    upstream,
    fetch: async request => await upstream.probe(request),
    heads: tracker,
    pollMs: 1000,
    now: () => 0,
    onPolled: nothing,
    onRelease
  })
  return {
    context: {
      ...readState(memory),
      now: () => clock.ms,
      tracker,
      versionWaits,
      lowestRequested: new LowestRecentRequest(() => clock.ms),
      memory,
      lowerTiers: [],
      invalidator: new LocalInvalidator(memory),
      auditSampler: new AuditSampler(nothing, async () => {}),
      fetchLeases: undefined,
      upstreamPool,
      follower: undefined,
      inFlight: new InFlightBytes(Infinity, () => clock.ms),
      releases,
      resolveChain: async () => {
        await poll.poll()
      },
      metrics: {
        notStored: nothing,
        missed: nothing,
        staleLatest: nothing,
        waited: nothing,
        awaitedTransaction: nothing,
        audited: nothing,
        observed: nothing,
        overBudget: nothing,
        pruned: nothing
      },
      settings: settingsOf()
    }
  }
}

/** Settings of a test that audits nothing unless it says so. */
export function settingsOf (change: ConfigInput = {}): Config {
  return configSchema.parse({ audit: { share: 0 }, ...change })
}

/** The parts of a proxy whose chain is known; `serve` returns the name of the outcome and the body. */
export async function resolvedContextAt (
  t: Test,
  url: string,
  clock?: { ms: number }
): Promise<{ context: ProxyParts, serve: (target?: string) => Promise<[string, string]> }> {
  const { context } = contextAt(t, url, clock)
  await context.resolveChain()
  return {
    context,
    serve: async (target = '/v1/accounts/0x1/modules?ledger_version=500') => {
      const outcome = await serveRead(context, readOfTarget(target))
      return [outcomeNameOf(outcome), bodyOf(outcome)]
    }
  }
}

/** Parts of a proxy in front of an embedded node; the test controls growth and clock. */
export interface ContextAtSandbox {
  readonly sandbox: Sandbox
  readonly parts: ProxyParts
  readonly clock: { ms: number }
  /** Results that were counted: reasons not to store, stale and pruned reads. */
  readonly reported: string[]
  /** Causes of misses. */
  readonly missed: string[]
  get(target: string): Promise<Outcome>
}

/** Starts an embedded node and the parts of a proxy in front of it, without listeners. */
export async function contextAtSandbox (
  t: Test,
  options: SandboxOptions = {},
  change: ConfigInput = {}
): Promise<ContextAtSandbox> {
  const sandbox = await startSandbox({ blockMs: 0, ...options })
  t.teardown(async () => {
    await sandbox.close()
  })
  const clock = { ms: 0 }
  const reported: string[] = []
  const missed: string[] = []
  const made = contextAt(t, sandbox.url, clock).context
  const parts: ProxyParts = {
    ...made,
    metrics: {
      ...made.metrics,
      notStored: (_endpoint, reason) => reported.push(reason),
      missed: (_endpoint, cause) => missed.push(cause),
      staleLatest: () => reported.push('stale'),
      pruned: (_endpoint, by) => reported.push(`pruned by ${by}`)
    },
    settings: settingsOf(change)
  }
  await parts.resolveChain()
  sandbox.requests.reset()
  return { sandbox, parts, clock, reported, missed, get: async target => await serveRead(parts, readOfTarget(target)) }
}

/** Returns the body that an outcome sends. */
export function bodyOf (outcome: Outcome): string {
  return ('entry' in outcome ? outcome.entry : outcome.fetched.response).body.toString()
}

/** Returns the canonical read of a GET. */
export function readOfTarget (target: string): Read {
  const match = matchEndpoint(target, 'GET')
  if (match === undefined) throw new Error(`no read at ${target}`)
  return readRequest(match, { method: 'GET', accept: undefined, contentType: undefined, body: Buffer.alloc(0) })
}

/** Returns the parts of a public listener around those of a test, with the default configuration and changes. */
export function listenerContextOf (proxy: ProxyParts, change: Partial<ListenerContext> = {}): ListenerContext {
  return {
    ...contextOf(
      {
        buckets: new LocalBuckets(proxy.now),
        metrics: new Metrics(),
        log: pino({ level: 'silent' }),
        requestIds: new RequestIds(),
        isSandbox: false,
        drain: { isDraining: false },
        clients: new ConnectionLimiter({ connections: Infinity, inFlight: proxy.inFlight }, {
          cut: () => {},
          onFull: () => {}
        })
      },
      configSchema.parse({}),
      proxy
    ),
    ...change
  }
}
