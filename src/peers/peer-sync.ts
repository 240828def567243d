import { type RedisTier } from '../cache/redis-tier.js'
import { type Space } from '../chain/space.js'
import { type SpacePlace } from '../chain/space-places.js'
import { type Spaces } from '../chain/spaces.js'
import { type Tracker } from '../chain/tracker.js'
import { type UpstreamSoftwareReleases } from '../upstreams/upstream-software-releases.js'
import { type Heartbeat, parseHeartbeats, encodeWithChecksum } from './parse-records.js'
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
  /** Names the processes of this host, which are one peer of other hosts. */
  readonly host: string
  /** Resolves with true if this process may do, for its host, what the lease names. */
  readonly lease: (name: string, ms: number) => Promise<boolean>
  readonly now: () => number
}

// Syncs twice a second, because peers must agree within a second.
const syncEveryMs = 450
const rememberEveryMs = 5000
// A peer without a heartbeat for this long is gone, and its upstreams' releases no longer count.
const goneAfterMs = 10_000
const heartbeatEveryMs = 2000

/**
 * Keeps peers together: reads the shared records twice a second and when notified, and publishes what the records lack.
 */
export class PeerSync {
  readonly #options: PeerSyncOptions
  readonly #heartbeats = new Map<string, Heartbeat & { readonly atMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #isSyncRequested = false
  #notified: { readonly space: Space, readonly places: number } | undefined
  #heartbeatAtMs = -Infinity
  #readAtMs = -Infinity
  #hosts = 1
  #remembered: { readonly space: Space, readonly atMs: number } | undefined

  constructor (options: PeerSyncOptions) {
    this.#options = options
  }

  /** Number of live hosts as last known, with this one; it stays the same while Redis cannot be read. */
  get hosts (): number {
    return this.#hosts
  }

  start (): void {
    if (this.#options.places.length === 0) return
    this.#timer = setInterval(() => this.sync().catch(() => {}), syncEveryMs).unref()
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

  /** Notifies the other peers of a new space, once for each place that gets it. */
  #notifyOf (space: Space): void {
    const { spaces, places, peers } = this.#options
    const has = places.filter(place => spaces.isIn(place)).length
    if (has > 0 && (this.#notified?.space !== space || has > this.#notified.places)) peers.publish({ kind: 'changed' })
    this.#notified = { space, places: has }
  }

  async #syncRedis (space: Space, redis: RedisParts): Promise<void> {
    const { records, place, tier, purges } = redis
    try {
      const peers = parseHeartbeats(await records.read(heartbeatsNameOf(space)))
      this.#updateLivePeers(peers, redis)
      // Reads the records before it writes any, because a full or read-only Redis rejects writes.
      await purges.sync(space)
      if (this.#options.spaces.isIn(place)) await this.#publish(space, redis, peers)
      if (purges.hasPending) await purges.deliver()
    } finally {
      // Runs after a rejected write too: queued entries must be written, or counted as failed.
      tier.resumeWrites()
    }
  }

  /** Publishes a sign of life of this host, removes hosts that are gone, and remembers the space. */
  async #publish (space: Space, redis: RedisParts, listed: readonly Heartbeat[]): Promise<void> {
    const { host, lease, now } = this.#options
    const { records, place, releases } = redis
    const isHeartbeatDue = listed.every(({ id }) => id !== host) || now() - this.#heartbeatAtMs >= heartbeatEveryMs
    // Records the space, which shows the chain of an upstream even after all peers have gone.
    const isRecordDue = this.#remembered?.space !== space || now() - this.#remembered.atMs >= rememberEveryMs
    if (!(isHeartbeatDue || isRecordDue) || !await lease('heartbeat', goneAfterMs).catch(() => false)) return
    if (isHeartbeatDue) {
      this.#heartbeatAtMs = now()
      const gone = [...this.#heartbeats.values()].filter(({ atMs }) => now() - atMs > goneAfterMs).map(({ id }) => id)
      const own: Heartbeat = { id: host, beat: 1 + (this.#heartbeats.get(host)?.beat ?? 0), releases: releases.own }
      await changeRecord(
        records,
        heartbeatsNameOf(space),
        text =>
          encodeWithChecksum([own, ...parseHeartbeats(text).filter(({ id }) => id !== host && !gone.includes(id))])
      )
      for (const id of gone) this.#heartbeats.delete(id)
      this.#heartbeats.set(host, { ...own, atMs: now() })
    }
    if (!isRecordDue) return
    this.#remembered = { space, atMs: now() }
    await place.remember(space)
  }

  /**
   * Collects the releases of live peers. A peer lives while its number rises, so neither clocks nor a lost record
   * matter.
   */
  #updateLivePeers (peers: readonly Heartbeat[], { releases }: RedisParts): void {
    const { host, now } = this.#options
    const nowMs = now()
    // Ignores the time without a reading, in which a peer's number may have risen unseen.
    const unreadMs = nowMs - this.#readAtMs > heartbeatEveryMs ? nowMs - this.#readAtMs : 0
    this.#readAtMs = nowMs
    for (const [id, peer] of this.#heartbeats) this.#heartbeats.set(id, { ...peer, atMs: peer.atMs + unreadMs })
    for (const peer of peers) {
      if (this.#heartbeats.get(peer.id)?.beat !== peer.beat) this.#heartbeats.set(peer.id, { ...peer, atMs: nowMs })
    }
    const live = [...this.#heartbeats.values()].filter(({ id, atMs }) => id !== host && nowMs - atMs <= goneAfterMs)
    this.#hosts = 1 + live.length
    releases.replacePeerReleases(live.flatMap(peer => peer.releases))
  }
}

function heartbeatsNameOf ({ chainId }: Space): string {
  return `peers ${chainId}`
}
