import { isDeepStrictEqual } from 'node:util'
import { type Logger } from 'pino'
import { readAccumulatorRoot } from '../api/body-facts.js'
import { transactionByVersionTarget } from '../api/request-targets.js'
import { type MemoryTier } from '../cache/memory-tier.js'
import { type Config } from '../config/schema.js'
import { Follower, type FollowEvent, type FollowState, type TailDemand, TailDemandSender } from '../follow/follower.js'
import { TailLoop, type TailSubscriber } from '../follow/tail-loop.js'
import { TailReader } from '../follow/tail-reader.js'
import { type FollowStatus } from '../http/status-conditions.js'
import { type FollowMetrics, type Metrics } from '../metrics/metrics.js'
import { type Peers } from '../peers/peers.js'
import { type ProvenRoot, type RedisTail, type RedisTailOptions } from '../peers/redis-tail.js'
import { type SourcedResponse } from '../upstreams/upstream-pool.js'
import { type UpstreamRequest, probeRequest } from '../upstreams/upstream-request.js'
import { type Chain, type Host } from './chain.js'
import { versionOfProgram } from './io.js'

/** Facts about this process for the tail that hosts share. */
export type HostTailParts = Pick<
  RedisTailOptions,
  'form' | 'maxAgeMs' | 'requiresVerified' | 'space' | 'mayBeOurs' | 'readRoot' | 'onDifferent'
>

/** Parts that following needs. */
export interface FollowingParts extends Pick<Chain, 'tracker' | 'upstreamPool' | 'headPollers' | 'now'> {
  readonly metrics: Metrics
  readonly log: Logger
  readonly memory: Pick<MemoryTier, 'invalidateFollowed'>
  /** The other processes of this varve, one of which reads the tail for all. */
  readonly peers: Pick<Peers, 'publish'>
  readonly lease: Host['lease']
  /** Builds the tail that hosts share; undefined without Redis. */
  readonly hostTailOf: (parts: HostTailParts) => RedisTail | undefined
}

/** Follows the ledger by the configuration: builds the follower, and what reads the tail. */
export class Following {
  readonly #parts: FollowingParts
  #settings: Config['follow'] | undefined
  #follower: Follower | undefined
  #counters: FollowMetrics | undefined
  #loop: TailLoop | undefined
  #hostTail: RedisTail | undefined
  #isUnverifiable = false

  constructor (config: Config, parts: FollowingParts) {
    this.#parts = parts
    this.prepare(config).use()
  }

  /**
   * Prepares to follow by a configuration: following begins again, even after a stop. The present configuration stays
   * until `use`, because a reload may be rejected.
   */
  prepare ({ follow: settings }: Config): { readonly follower: Follower | undefined, readonly use: () => void } {
    if (this.#follower?.state !== 'stopped' && isDeepStrictEqual(settings, this.#settings)) {
      return { follower: this.#follower, use: () => {} }
    }
    const follower = settings.mode === 'off' ? undefined : this.#build(settings)
    return {
      follower,
      use: () => {
        this.close()
        this.#settings = settings
        this.#isUnverifiable = false
        this.#follower = follower
        this.#counters = follower && this.#parts.metrics.following({
          headVersion: () => this.#follower?.head?.version,
          lagSeconds: () => this.#lagSeconds
        })
      }
    }
  }

  /** Follower of the present configuration. */
  get follower (): Follower | undefined {
    return this.#follower
  }

  /** Reads the tail for all processes from now on. */
  lead (): void {
    const [follower, settings, counters] = [this.#follower, this.#settings, this.#counters]
    if (follower === undefined || settings === undefined || counters === undefined || this.#loop !== undefined) return
    this.#loop = this.#tailOf(follower, settings, counters)
    follower.setDemandSink(this.#loop)
    this.#loop.recordRead()
  }

  /** Records what another process reports: how many reads the tail saved it, and that a read waits now. */
  onDemand ({ saved, isUrgent }: TailDemand): void {
    this.#loop?.recordRead()
    this.#loop?.recordSaved(saved)
    if (isUrgent) this.#loop?.wake()
  }

  /** Wakes the tail when another host announces what it has read. */
  onDigests (source: string): void {
    if (this.#hostTail?.isOfOthers(source) === true) this.#loop?.wake()
  }

  /** Applies what the process that reads the tail has published. */
  onEvent (event: FollowEvent): void {
    const follower = this.#follower
    switch (event.kind) {
      case 'update': {
        const { update } = event
        // Ignores a position of the old chain, which a worker that starts during a reset may still read (law 7: chains
        // never mix).
        if (update.stamped !== undefined && !this.#parts.tracker.mayBeOurs(update.stamped.position)) {
          return follower?.clear()
        }
        return follower?.apply({ ...update, sentAtMs: update.sentAtMs - monotonicOriginMs() })
      }
      case 'state':
        return follower?.setState(event.state, event.reason)
      case 'clear':
        if (event.isWrong) this.#parts.memory.invalidateFollowed()
        return follower?.clear()
    }
  }

  /** Forgets the old chain, whose versions say nothing about the next chain. */
  reset (): void {
    if (this.#loop === undefined) this.#follower?.clear()
    else this.#loop.reset()
  }

  /** Milliseconds since a followed head last came from another host. */
  get peerHeadAgeMs (): number {
    return this.#hostTail?.takenAgeMs ?? Infinity
  }

  /** Problems for `/readyz` and the status page, as readable sentences. */
  get warnings (): string[] {
    const follower = this.#follower
    const warnings = this.#isUnverifiable ? ['following: pages of transactions cannot be checked in BCS'] : []
    switch (follower?.state) {
      case 'interrupted':
      case 'unsupported':
        return [...warnings, `following is interrupted: ${follower.reason ?? 'the tail cannot be read'}`]
      case 'stopped':
        return [...warnings, `following stopped until a reload: ${follower.reason ?? 'a check failed'}`]
      case 'idle':
      case 'starting':
      case 'following':
      case 'suspended':
      case undefined:
        return warnings
    }
  }

  /** State for /status.json; undefined if nothing follows. */
  get status (): FollowStatus | undefined {
    const follower = this.#follower
    return follower && this.#settings && {
      mode: this.#settings.mode,
      state: follower.state,
      ...(follower.reason !== undefined && { reason: follower.reason }),
      version: follower.head && String(follower.head.version),
      lagSeconds: this.#lagSeconds
    }
  }

  /** Ledger time from the followed head to the newest known one. */
  get #lagSeconds (): number | undefined {
    const newest = this.#parts.tracker.newestHead?.timestampUsec
    const followed = this.#follower?.confirmed?.position.head.timestampUsec
    return newest === undefined || followed === undefined ? undefined : Math.max(0, Number(newest - followed) / 1e6)
  }

  close (): void {
    this.#loop?.close()
    this.#loop = undefined
    this.#hostTail = undefined
    this.#follower?.clear()
    this.#parts.tracker.follow(undefined)
  }

  #build (settings: Config['follow']): Follower {
    const { tracker, now, peers, lease, log, memory } = this.#parts
    const { maxAgeMs, mode } = settings
    const follower = new Follower({
      now,
      maxAgeMs,
      isServing: mode === 'on',
      servedVersion: () => tracker.known?.position.head.version,
      onServedHead: stamped => tracker.follow(stamped),
      onState: (state, reason) => {
        logState(log, state, reason)
        if (state !== 'stopped') return
        // Drops what a check has found wrong, so that no reload serves it again.
        memory.invalidateFollowed()
        this.#publish({ kind: 'state', state, reason })
        this.#hostTail?.stop(reason ?? 'a check failed')
      }
    })
    follower.setDemandSink(
      new TailDemandSender(demand => {
        peers.publish({ kind: 'demand', demand })
        lease('tail', Infinity).then(isGranted => {
          if (!isGranted) return
          this.lead()
          this.onDemand(demand)
        }, () => {})
      }, now)
    )
    return follower
  }

  /** Publishes what this process read, or that following stopped. */
  #publish (event: FollowEvent): void {
    this.#parts.peers.publish({ kind: 'tail', event })
  }

  #tailOf (follower: Follower, settings: Config['follow'], counters: FollowMetrics): TailLoop {
    const { headPollers, upstreamPool, tracker, now, log } = this.#parts
    const { maxAgeMs, verify } = settings
    const reader = new TailReader({
      fetch: async (request, version) => await this.#fetch(request, version, tracker.position?.head.version),
      isOurChain: ({ position, family, encryptionKey }) =>
        tracker.learn(position, family, encryptionKey) !== 'other_chain',
      shouldVerify: () => Math.random() < verify,
      requiresVerified: () => verify === 1,
      onVerified: result => {
        counters.verified(result)
        this.#isUnverifiable = result === 'unavailable'
        if (result === 'different') follower.setState('stopped', 'the changes of a page are not those of its hash')
      },
      onBytes: counters.readBytes
    })
    this.#hostTail = this.#hostTailOf(settings)
    return new TailLoop({
      reader,
      shared: this.#hostTail,
      follower: this.#publisherOf(follower),
      now,
      maxAgeMs,
      metrics: counters,
      onMismatch: async ({ reason, stamped }) => {
        log.warn({ reason }, 'the followed tail does not continue: verifying every upstream again')
        const { space } = tracker
        await headPollers.reverifyAll().catch(() => {})
        // Resets the chain of a single upstream at once: the root of the accumulator proves another chain even before
        // any anchor is known.
        const [only, ...others] = upstreamPool.upstreams
        if (tracker.space !== space || stamped === undefined || others.length > 0) return
        if (!tracker.reset(stamped)) only?.guard.quarantine()
      }
    })
  }

  async #fetch (
    request: UpstreamRequest,
    version: bigint | undefined,
    minVersion: bigint | undefined
  ): Promise<SourcedResponse | undefined> {
    return await this.#parts.upstreamPool.fetchAside(request, { version, minVersion, events: undefined })
  }

  /** Builds the tail that hosts share; undefined at a `maxAgeMs` of 0, because each process then reads for itself. */
  #hostTailOf ({ maxAgeMs, verify }: Config['follow']): RedisTail | undefined {
    const { hostTailOf, tracker, headPollers, log } = this.#parts
    if (maxAgeMs === 0) return undefined
    return hostTailOf({
      form: `${versionOfProgram()}:${maxAgeMs}:${verify > 0 ? 'verified' : 'unverified'}`,
      maxAgeMs,
      requiresVerified: verify === 1,
      space: () => tracker.space?.name,
      mayBeOurs: ({ position }) => tracker.mayBeOurs(position) && !tracker.isJump(position),
      readRoot: async version => await this.#readRoot(version),
      onDifferent: reason => {
        log.warn({ reason }, 'another host reads a tail that is not proven: this one reads for itself')
        this.#loop?.reset('mismatch')
        headPollers.reverifyAll().catch(() => {})
      }
    })
  }

  async #readRoot (version: bigint): Promise<ProvenRoot | undefined> {
    const probe = probeRequest(transactionByVersionTarget(version))
    // Asks caches between varve and the node to fetch again, because a cached response would prove nothing.
    const request = { ...probe, headers: { ...probe.headers, 'cache-control': 'no-cache' } }
    const response = await this.#fetch(request, version, undefined)
    response?.rest?.destroy()
    if (response?.status !== 200 || response.rest !== undefined || response.stamped === undefined) return undefined
    const root = readAccumulatorRoot(response.body, version)?.slice(2)
    const upstream = this.#parts.upstreamPool.upstreams.find(({ name }) => name === response.source.upstream)
    return root === undefined
      ? undefined
      : { root, stamped: response.stamped, confirm: () => upstream?.guard.recordSameChain() }
  }

  /** Applies what was read to this process first, then publishes it to the other processes. */
  #publisherOf (follower: Follower): TailSubscriber {
    const { memory } = this.#parts
    return {
      get head () {
        return follower.head
      },
      get state () {
        return follower.state
      },
      apply: update => {
        follower.apply(update)
        this.#publish({ kind: 'update', update: { ...update, sentAtMs: update.sentAtMs + monotonicOriginMs() } })
      },
      setState: (state, reason) => {
        follower.setState(state, reason)
        if (state !== 'stopped') this.#publish({ kind: 'state', state, reason })
      },
      clear: isWrong => {
        // Drops followed entries, whose intervals another chain may have extended (law 12: unknown means changed).
        if (isWrong) memory.invalidateFollowed()
        follower.clear()
        this.#publish({ kind: 'clear', isWrong })
      }
    }
  }
}

function logState (log: Logger, state: FollowState, reason: string | undefined): void {
  switch (state) {
    case 'idle':
    case 'starting':
      return
    case 'following':
      return log.info('following the ledger')
    case 'suspended':
      return log.info({ reason }, 'following suspended until the next latest read')
    case 'interrupted':
    case 'unsupported':
      return log.warn({ reason }, 'following interrupted: latest reads go to upstreams')
    case 'stopped':
      return log.error({ reason }, 'following stopped: reload the configuration once the cause is known')
  }
}

/** Distance of this process's clock from the monotonic clock that all processes of a machine share. */
function monotonicOriginMs (): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000 - performance.now()
}
