import { randomUUID } from 'node:crypto'
import { type RedisTier } from '../cache/redis-tier.js'
import { type Space } from '../chain/space.js'
import { type SpacePlace } from '../chain/space-places.js'
import { type Spaces } from '../chain/spaces.js'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { encodeWithChecksum } from './checksummed-json.js'
import { type Heartbeat, parseHeartbeats } from './parse-records.js'
import { type Peers } from './peers.js'
import { type Purges } from './purges.js'
import { type RecordedSpaces } from './recorded-spaces.js'
import { changeRecord, type Records } from './records.js'

/** Parts that peers of several hosts need to agree. */
export interface RedisParts {
  readonly records: Records
  readonly place: RecordedSpaces
  readonly tier: RedisTier
  readonly purges: Purges
  readonly releases: UpstreamSoftwareReleases
}

/** Parts that all peers need to agree. */
export interface PeerSyncOptions {
  readonly spaces: Spaces
  readonly places: readonly SpacePlace[]
  readonly tracker: Tracker
  readonly peers: Pick<Peers, 'publish'>
  readonly redis: RedisParts | undefined
  readonly now: () => number
}

// Runs twice a second, because peers must agree within a second.
const syncEveryMs = 450
const rememberEveryMs = 5000
// A peer without a heartbeat for this long is gone, and its upstreams' releases no longer count.
const goneAfterMs = 10_000
const heartbeatEveryMs = 2000

/** Keeps peers together: reads what they share twice a second and when notified, and publishes what is missing. */
export class PeerSync {
  readonly #options: PeerSyncOptions
  readonly #id: string = randomUUID()
  readonly #heartbeats = new Map<string, Heartbeat & { readonly atMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #isSyncRequested = false
  #beat = 0
  #notified: { readonly space: Space, readonly places: number } | undefined
  #heartbeatAtMs = -Infinity
  #remembered: { readonly space: Space, readonly atMs: number } | undefined

  constructor (options: PeerSyncOptions) {
    this.#options = options
  }

  start (): void {
    if (this.#options.places.length === 0) return
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

  async #syncWhileRequested (): Promise<void> {
    do {
      this.#isSyncRequested = false
      await this.#syncOnce()
    } while (this.#isSyncRequested)
  }

  async #syncOnce (): Promise<void> {
    const { spaces, tracker, redis } = this.#options
    await spaces.settle()
    const { space } = tracker
    if (space === undefined) return
    this.#notifyOf(space)
    if (redis !== undefined) await this.#syncRedis(space, redis)
  }

  /** Notifies the other peers of a new space, in each place that gets it. */
  #notifyOf (space: Space): void {
    const { spaces, places, peers } = this.#options
    const has = places.filter(place => spaces.isIn(place)).length
    if (has > 0 && (this.#notified?.space !== space || has > this.#notified.places)) {
      peers.publish({ kind: 'changed' })
    }
    this.#notified = { space, places: has }
  }

  async #syncRedis (space: Space, redis: RedisParts): Promise<void> {
    const { records, place, tier, purges } = redis
    try {
      const peers = parseHeartbeats(await records.read(heartbeatsNameOf(space)))
      this.#updateLivePeers(peers, redis)
      // Reads come before writes, because a full Redis or a read-only one rejects writes.
      await purges.sync(space)
      if (this.#options.spaces.isIn(place)) await this.#publish(space, redis, peers.some(({ id }) => id === this.#id))
      if (purges.hasPending) await purges.deliver()
    } finally {
      // Also runs after a rejected write: queued entries must be written, or counted as failed.
      tier.resumeWrites()
    }
  }

  /** Publishes a sign of life, and removes peers that are gone. */
  async #publish (space: Space, { records, place, releases }: RedisParts, isListed: boolean): Promise<void> {
    const { now } = this.#options
    if (!isListed || now() - this.#heartbeatAtMs >= heartbeatEveryMs) {
      this.#heartbeatAtMs = now()
      const removed = new Set([this.#id])
      for (const [id, { atMs }] of this.#heartbeats) if (now() - atMs > goneAfterMs) removed.add(id)
      const own: Heartbeat = { id: this.#id, beat: ++this.#beat, releases: releases.own }
      await changeRecord(
        records,
        heartbeatsNameOf(space),
        text => encodeWithChecksum([own, ...parseHeartbeats(text).filter(({ id }) => !removed.has(id))])
      )
      for (const id of removed) this.#heartbeats.delete(id)
    }
    // With all peers gone, it shows which chain an upstream had.
    if (this.#remembered?.space === space && now() - this.#remembered.atMs < rememberEveryMs) return
    this.#remembered = { space, atMs: now() }
    await place.remember(space)
  }

  /**
   * Collects the releases of live peers. A peer lives while its beat rises, so neither clocks nor a lost record matter.
   */
  #updateLivePeers (peers: readonly Heartbeat[], { releases }: RedisParts): void {
    const nowMs = this.#options.now()
    for (const peer of peers) {
      if (peer.id !== this.#id && this.#heartbeats.get(peer.id)?.beat !== peer.beat) {
        this.#heartbeats.set(peer.id, { ...peer, atMs: nowMs })
      }
    }
    const live = [...this.#heartbeats.values()].filter(({ atMs }) => nowMs - atMs <= goneAfterMs)
    releases.replacePeerReleases(live.flatMap(peer => peer.releases))
  }
}

function heartbeatsNameOf ({ chainId }: Space): string {
  return `peers ${chainId}`
}
