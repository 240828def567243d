import { type Anchor } from './anchors.js'
import { type StampedPosition } from '../api/position.js'
import { readFinalBlock } from './final-block.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { readHead } from './head-poll.js'
import { type ChainVerification, type Upstream } from '../upstreams/upstream.js'
import { type QuarantineReason } from '../upstreams/quarantine.js'
import { type GenerationOptions, type UnverifiedUpstream } from './generation-options.js'
import { type Generations } from './generations.js'
import { contradicts, type Tracker } from './tracker.js'

// An upstream that was down may fail block reads for this long. After that it is compared without blocks, if no
// verified peer is up.
const toleratedFailureMs = 5000
// Counts an upstream as unreachable that reports no head within this time.
const headTimeoutMs = 1000

/** Parts that verification needs. */
export interface ChainVerifierOptions {
  readonly pool: UpstreamPool
  readonly generations: Generations
  readonly tracker: Tracker
  /** Resolves after the first polls of the upstreams before this one in the configuration. */
  readonly waitForEarlier: (upstream: Upstream) => Promise<void>
  readonly now: () => number
}

/**
 * Verifies upstreams after an outage. Those that cannot be recognised at once wait in line, so each is compared with
 * the result of the last.
 */
export class ChainVerifier implements ChainVerification {
  readonly #options: ChainVerifierOptions
  readonly #failingSince = new WeakMap<Upstream, number>()
  #previous: Promise<unknown> = Promise.resolve()

  constructor (options: ChainVerifierOptions) {
    this.#options = options
  }

  hasPeers (): boolean {
    return this.#options.pool.upstreams.length > 1
  }

  isOffChain ({ position }: StampedPosition): boolean {
    const { tracker } = this.#options
    return tracker.position !== undefined &&
      (position.chainId !== tracker.chainId || contradicts(position, tracker.position))
  }

  /**
   * Resolves with a reason to quarantine the upstream, or undefined if it is on our chain. Rejects when that is unknown
   * now.
   */
  async verifyChain (
    upstream: Upstream,
    stamped: StampedPosition,
    wasDown: boolean
  ): Promise<QuarantineReason | undefined> {
    const { pool, generations, waitForEarlier } = this.#options
    // When upstreams disagree at the start, the first in configuration order that responds decides the chain.
    if (pool.upstreams.every(other => !other.isVerified)) await waitForEarlier(upstream)
    if (await generations.isSameChain(this.#unverifiedOf(upstream, stamped, wasDown))) return undefined
    const verification = this.#previous.then(async () =>
      await generations.verifyChain(this.#unverifiedOf(upstream, stamped, wasDown))
    )
    this.#previous = verification.catch(() => {})
    return await verification
  }

  /** Resolves with true if the upstream is on our chain without any decision. */
  async isSameChain (upstream: Upstream, stamped: StampedPosition): Promise<boolean> {
    return await this.#options.generations.isSameChain(this.#unverifiedOf(upstream, stamped, true))
  }

  #unverifiedOf (upstream: Upstream, stamped: StampedPosition, wasDown: boolean): UnverifiedUpstream {
    const { referenceUpstream } = this.#options.pool
    const peer = referenceUpstream !== undefined && referenceUpstream !== upstream && referenceUpstream.isVerified &&
        referenceUpstream.isUp
      ? referenceUpstream
      : undefined
    return {
      stamped,
      readBlock: async height =>
        await this.#readBlock(upstream, height, peer !== undefined ? Infinity : wasDown ? toleratedFailureMs : 0),
      readPeerBlock: peer && blockReaderOf(peer),
      isLastReachable: async () => await this.#isLastReachable(upstream)
    }
  }

  /**
   * Reads a block for the comparison; after `toleratedMs` of failures, returns undefined, and the comparison goes on
   * without it.
   */
  async #readBlock (upstream: Upstream, height: bigint, toleratedMs: number): Promise<Anchor | undefined> {
    try {
      const block = await blockReaderOf(upstream)(height)
      this.#failingSince.delete(upstream)
      return block
    } catch (error) {
      const since = this.#failingSince.get(upstream) ?? this.#options.now()
      this.#failingSince.set(upstream, since)
      if (this.#options.now() - since < toleratedMs) throw error
      return undefined
    }
  }

  /** Returns true if no other upstream responds; asks each twice, because one failure does not mean that it is down. */
  async #isLastReachable (upstream: Upstream): Promise<boolean> {
    const others = this.#options.pool.upstreams.filter(other =>
      other !== upstream && other.quarantineReason === undefined
    )
    const heads = await Promise.all(others.map(async other => await fetchHead(other) ?? await fetchHead(other)))
    return heads.every(word => word === undefined)
  }
}

/** Builds a reader of final blocks by height. */
function blockReaderOf ({ client }: Upstream): (height: bigint) => Promise<Anchor | undefined> {
  return async height => await readFinalBlock(async request => await client.fetch(request), height)
}

async function fetchHead ({ client }: Upstream): Promise<StampedPosition | undefined> {
  return await readHead(async request => await client.fetch(request, Math.min(client.timeoutMs, headTimeoutMs)))
}

/** Builds the reads of our chain from the pool's reference upstream. */
export function chainSourceOf (pool: UpstreamPool): Pick<GenerationOptions, 'readBlock' | 'readHead'> {
  return {
    readBlock: async height => pool.referenceUpstream && await blockReaderOf(pool.referenceUpstream)(height),
    readHead: async () => {
      const { referenceUpstream } = pool
      return referenceUpstream && await readHead(async request => await referenceUpstream.client.fetch(request))
    }
  }
}
