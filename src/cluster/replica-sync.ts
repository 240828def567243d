import { randomUUID } from 'node:crypto'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type RedisLink } from '../redis/link.js'
import { type RedisGenerationRegistry, type RedisRegistryState } from './redis-generation-registry.js'
import { type ReplicaAgreement } from './replica-agreement.js'
import { type RedisTier } from '../cache/redis-tier.js'
import { type Generations } from '../chain/generations.js'
import { type ReplicaChannel } from './replica-channel.js'
import { type Purges } from './purges.js'
import { type ReplicaMessage, type Heartbeat } from './replica-messages.js'

/** Parts that replicas need to agree. */
export interface ReplicaSyncOptions {
  readonly link: RedisLink
  readonly registry: RedisGenerationRegistry
  readonly generations: Generations
  readonly agreement: ReplicaAgreement
  readonly tier: RedisTier
  readonly purges: Purges
  readonly news: ReplicaChannel
  readonly tracker: Tracker
  readonly releases: UpstreamSoftwareReleases
  readonly now: () => number
}

// Runs twice a second, because replicas must agree within a second.
const syncEveryMs = 450
const rememberEveryMs = 5000
// A replica without a heartbeat for this long is gone, and its upstreams' releases no longer count.
const replicaGoneAfterMs = 10_000
const heartbeatEveryMs = 2000

/**
 * Keeps replicas in agreement: reads the shared records twice a second and when notified, and publishes missing ones.
 */
export class ReplicaSync {
  readonly #options: ReplicaSyncOptions
  readonly #replicaId = randomUUID()
  readonly #heartbeats = new Map<string, Heartbeat & { readonly atMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #isSyncRequested = false
  #beat = 0
  #notifiedGeneration: number | undefined
  #heartbeatAtMs = -Infinity
  #remembered: { readonly text: string, readonly atMs: number } | undefined

  constructor (options: ReplicaSyncOptions) {
    this.#options = options
  }

  start (): void {
    this.#timer = setInterval(() => {
      this.sync().catch(() => {})
    }, syncEveryMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  /** Syncs now; a call during a sync requests one more after it. */
  async sync (): Promise<void> {
    if (this.#syncing !== undefined) this.#isSyncRequested = true
    this.#syncing ??= this.#syncWhileRequested().finally(() => {
      this.#syncing = undefined
    })
    await this.#syncing
  }

  /** Applies another replica's message. */
  receive (message: ReplicaMessage): void {
    const { agreement, tracker } = this.#options
    if (message.kind === 'changed') this.sync().catch(() => {})
    else if (message.generation === agreement.chain?.generation) tracker.learnProven(message.stamped)
  }

  /** Restores the chain that all upstreams last had, while no upstream responds. */
  async restoreChain (): Promise<void> {
    const { registry, generations, tracker } = this.#options
    if (tracker.chain !== undefined) return
    const upstreams = await registry.rememberedUpstreams()
    const [first] = upstreams
    if (first === undefined || upstreams.some(({ chainId }) => chainId !== first.chainId)) return
    generations.restoreChain(first.chainId, upstreams, await registry.read(first.chainId))
  }

  async #syncWhileRequested (): Promise<void> {
    do {
      this.#isSyncRequested = false
      await this.#syncOnce()
    } while (this.#isSyncRequested)
  }

  async #syncOnce (): Promise<void> {
    const { link, registry, generations, agreement, tier, purges, tracker } = this.#options
    const chainId = tracker.chain?.id
    if (!link.isUp || chainId === undefined) return
    const state = await registry.read(chainId)
    await generations.applyRegistryState(state)
    agreement.resume()
    this.#updateLiveReplicas(state)
    // Reads come before writes, because a full Redis or a read-only replica rejects writes.
    await purges.sync(chainId)
    try {
      await this.#publish(chainId, state)
      if (purges.hasPending) await purges.deliver()
    } finally {
      // Also runs after a rejected write: queued entries must be written, or counted as failed.
      tier.resumeWrites()
    }
  }

  /** Publishes records that the control record lacks, new or lost. */
  async #publish (chainId: number, state: RedisRegistryState): Promise<void> {
    const { registry, generations, tracker, releases, now } = this.#options
    if (!generations.isAgreed || tracker.chain === undefined) return
    const { generation } = tracker.chain
    const known = state.generations.get(generation)
    const { ownRecord } = generations
    const isBehind = (known?.head?.position.head.version ?? -1n) < (ownRecord.head?.position.head.version ?? -1n)
    const lacks = known === undefined ||
      ownRecord.anchors.some(({ height }) => !known.anchors.some(anchor => anchor.height === height))
    if (isBehind || lacks) await registry.publish(chainId, generation, ownRecord, state.generations.keys())
    if (!state.generations.has(generation) || this.#notifiedGeneration !== generation) {
      await this.#options.news.notifyChange(chainId)
    }
    this.#notifiedGeneration = generation
    if (now() - this.#heartbeatAtMs >= heartbeatEveryMs || !state.replicas.has(this.#replicaId)) {
      this.#heartbeatAtMs = now()
      const gone = [...this.#heartbeats].filter(([, { atMs }]) => now() - atMs > replicaGoneAfterMs).map(([name]) =>
        name
      )
      for (const name of gone) this.#heartbeats.delete(name)
      await registry.publishHeartbeat(chainId, this.#replicaId, { beat: ++this.#beat, releases: releases.own }, gone)
    }
    await this.#rememberUpstreams(chainId, generation)
  }

  /**
   * Collects the releases of live replicas. A replica lives while its beat rises, so neither clocks nor a lost record
   * matter.
   */
  #updateLiveReplicas ({ replicas }: RedisRegistryState): void {
    const nowMs = this.#options.now()
    for (const [name, { beat, releases }] of replicas) {
      if (name !== this.#replicaId && this.#heartbeats.get(name)?.beat !== beat) {
        this.#heartbeats.set(name, { beat, releases, atMs: nowMs })
      }
    }
    const live = [...this.#heartbeats.values()].filter(({ atMs }) => nowMs - atMs <= replicaGoneAfterMs)
    this.#options.releases.replacePeerReleases(live.flatMap(({ releases }) => releases))
  }

  /**
   * Remembers the chain of each upstream: if all replicas and the control record are gone, its anchors still reveal a
   * reset.
   */
  async #rememberUpstreams (chainId: number, generation: number): Promise<void> {
    const { registry, generations: { ownRecord }, now } = this.#options
    const text = [chainId, generation, ...ownRecord.anchors.map(({ hash }) => hash)].join(' ')
    if (this.#remembered?.text === text && now() - this.#remembered.atMs < rememberEveryMs) return
    this.#remembered = { text, atMs: now() }
    await registry.rememberUpstreams({ chainId, generation, ...ownRecord })
  }
}
