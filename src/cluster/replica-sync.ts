import { randomUUID } from 'node:crypto'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type RedisLink } from '../redis/link.js'
import { type RedisTier } from '../cache/redis-tier.js'
import { type Space } from '../chain/space.js'
import { type Spaces } from '../chain/spaces.js'
import { type RedisSpaces } from './redis-spaces.js'
import { type ReplicaChannel } from './replica-channel.js'
import { type Purges } from './purges.js'
import { type ReplicaMessage, type Heartbeat } from './replica-messages.js'

/** Parts that replicas need to agree. */
export interface ReplicaSyncOptions {
  readonly link: RedisLink
  readonly place: RedisSpaces
  readonly spaces: Spaces
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
 * Keeps replicas together: reads what they share twice a second and when notified, and publishes what is missing.
 */
export class ReplicaSync {
  readonly #options: ReplicaSyncOptions
  readonly #replicaId = randomUUID()
  readonly #heartbeats = new Map<string, Heartbeat & { readonly atMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #isSyncRequested = false
  #beat = 0
  #notified: Space | undefined
  #heartbeatAtMs = -Infinity
  #remembered: { readonly space: Space, readonly atMs: number } | undefined

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
    const { tracker, spaces, place } = this.#options
    if (message.kind === 'changed') this.sync().catch(() => {})
    else if (message.space === tracker.space?.name && spaces.isIn(place)) tracker.learnProven(message.stamped)
  }

  async #syncWhileRequested (): Promise<void> {
    do {
      this.#isSyncRequested = false
      await this.#syncOnce()
    } while (this.#isSyncRequested)
  }

  async #syncOnce (): Promise<void> {
    const { link, place, spaces, tier, purges, tracker } = this.#options
    if (!link.isUp || tracker.space === undefined) return
    await spaces.settle()
    const { space } = tracker
    if (space === undefined) return
    const replicas = await place.replicas(space.chainId)
    this.#updateLiveReplicas(replicas)
    // Reads come before writes, because a full Redis or a read-only replica rejects writes.
    await purges.sync(space)
    try {
      if (spaces.isIn(place)) await this.#publish(space, replicas.has(this.#replicaId))
      if (purges.hasPending) await purges.deliver()
    } finally {
      // Also runs after a rejected write: queued entries must be written, or counted as failed.
      tier.resumeWrites()
    }
  }

  /** Publishes a sign of life, and notifies the other replicas of a new space. */
  async #publish (space: Space, isListed: boolean): Promise<void> {
    const { place, releases, news, now } = this.#options
    if (this.#notified !== space) await news.notifyChange(space.chainId)
    this.#notified = space
    if (!isListed || now() - this.#heartbeatAtMs >= heartbeatEveryMs) {
      this.#heartbeatAtMs = now()
      const gone = [...this.#heartbeats].filter(([, { atMs }]) => now() - atMs > replicaGoneAfterMs).map(([name]) =>
        name
      )
      for (const name of gone) this.#heartbeats.delete(name)
      await place.publishHeartbeat(
        space.chainId,
        this.#replicaId,
        { beat: ++this.#beat, releases: releases.own },
        gone
      )
    }
    await this.#rememberUpstreams(space)
  }

  /**
   * Collects the releases of live replicas. A replica lives while its beat rises, so neither clocks nor a lost record
   * matter.
   */
  #updateLiveReplicas (replicas: ReadonlyMap<string, Heartbeat>): void {
    const nowMs = this.#options.now()
    for (const [name, { beat, releases }] of replicas) {
      if (name !== this.#replicaId && this.#heartbeats.get(name)?.beat !== beat) {
        this.#heartbeats.set(name, { beat, releases, atMs: nowMs })
      }
    }
    const live = [...this.#heartbeats.values()].filter(({ atMs }) => nowMs - atMs <= replicaGoneAfterMs)
    this.#options.releases.replacePeerReleases(live.flatMap(({ releases }) => releases))
  }

  /** Remembers the space of each upstream: with all replicas gone, it shows which chain an upstream had. */
  async #rememberUpstreams (space: Space): Promise<void> {
    const { place, now } = this.#options
    if (this.#remembered?.space === space && now() - this.#remembered.atMs < rememberEveryMs) return
    this.#remembered = { space, atMs: now() }
    await place.remember(space)
  }
}
