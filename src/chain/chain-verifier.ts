import { type ResponsePosition } from '../api/position.js'
import { type UpstreamPool } from '../upstreams/upstream-pool.js'
import { UpstreamFailure } from '../upstreams/upstream-failure.js'
import { UnprovenPositionError, type QuarantineReason } from '../upstreams/chain-guard.js'
import { isReachable, readHead, readHeadInTime } from '../upstreams/head-pollers.js'
import { type Upstream } from '../upstreams/upstream.js'
import { type ChainVerification, type EarlierStatements } from './quarantine.js'
import { type ChainReader, type ComparedUpstream } from './chain-proof.js'
import { type Spaces, type SpacesOptions } from './spaces.js'
import { contradicts, isJump, isNear, type Tracker } from './tracker.js'
import { readBlockEnd, readFinalBlockHash, readAccumulatorRoot } from '../api/body-facts.js'
import { blockTarget, transactionByVersionTarget } from '../api/request-targets.js'
import { probeRequest } from '../upstreams/upstream-request.js'

// An upstream that was down may fail block reads for this long. After that it is compared without blocks, if no
// verified peer is up.
const toleratedFailureMs = 5000
// Limits a read of a proof. A timeout is no lost connection, which polls find: an upstream may hang on such reads
// alone.
const maxProofMs = 3000
// Bounds the polls of other upstreams for one proof (law 10: nothing grows without bound).
const maxAskedOthers = 2

/** Parts that verification needs. */
export interface ChainVerifierOptions {
  readonly pool: UpstreamPool
  readonly spaces: Spaces
  readonly tracker: Tracker
  /** Resolves after the first polls of all upstreams that the configuration lists before this upstream. */
  readonly waitForEarlier: (upstream: Upstream) => Promise<void>
  readonly now: () => number
}

/**
 * Verifies upstreams after an outage. Upstreams that no block proves at once are verified one after the other, so each
 * is compared with the result of the last.
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

  isOffChain (stamped: ResponsePosition): boolean {
    return this.#contradictsChain(stamped) || this.#options.tracker.isJump(stamped.position)
  }

  #contradictsChain ({ position }: ResponsePosition): boolean {
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
    stamped: ResponsePosition,
    wasDown: boolean,
    earlier: EarlierStatements
  ): Promise<QuarantineReason | undefined> {
    const { tracker } = this.#options
    const isDoubtful = stamped.position.chainId === tracker.chainId && this.isOffChain(stamped)
    const believed = isDoubtful ? await this.#confirm(upstream, stamped, earlier) : stamped
    if (believed === undefined) return undefined
    const reason = await this.#compare(upstream, believed, wasDown, earlier)
    // A new process chooses the chain that it found in a lower tier during this comparison, so jumps are checked after
    // it.
    if (reason !== undefined) return reason
    const isAhead = tracker.isJump(believed.position)
    if (isAhead && !await this.#isJumpProven(upstream, believed)) {
      return `its position jumped to version ${believed.position.head.version}, which nothing proves`
    }
    if ((isDoubtful || isAhead) && !this.#contradictsChain(believed)) tracker.believe(believed.position)
    return undefined
  }

  /**
   * Asks the upstream again about a position that contradicts our chain or jumps ahead of it. Resolves with the
   * position to verify, or undefined if the upstream contradicts itself too often; rejects without proof.
   */
  async #confirm (
    upstream: Upstream,
    stamped: ResponsePosition,
    { doubted, recordContradiction }: EarlierStatements
  ): Promise<ResponsePosition | undefined> {
    const isAhead = !this.#contradictsChain(stamped)
    const polled = await this.#pollAgain(upstream, stamped, isAhead)
    const isContradiction = !isAhead || (polled !== undefined && contradicts(polled.position, stamped.position))
    if (isContradiction && recordContradiction()) return undefined
    const isRepeated = polled !== undefined && isNear(polled.position, stamped.position) &&
      (isAhead || this.#contradictsChain(polled))
    if (isRepeated) return polled
    if (isAhead && await this.#hasBlockNear(upstream, stamped)) return stamped
    const isSaidTwice = doubted !== undefined && isNear(doubted.position, stamped.position)
    // A poll that denies a jump proves the jump false, however often the upstream repeats it. A reset is false only if
    // blocks deny it too.
    const isDenied = polled !== undefined && (isAhead || await this.#isOnChain(upstream, polled))
    if (isSaidTwice && !isDenied) return stamped
    if (polled === undefined || this.isOffChain(polled)) throw new UnprovenPositionError(upstream.name)
    return polled
  }

  async #isOnChain (upstream: Upstream, stamped: ResponsePosition): Promise<boolean> {
    return await this.#options.spaces.compare(this.#comparedOf(upstream, stamped, false)) === 'same'
  }

  /** Polls the upstream, twice for a jump, because one of several nodes behind its address may lag. */
  async #pollAgain (
    upstream: Upstream,
    { position }: ResponsePosition,
    isAhead: boolean
  ): Promise<ResponsePosition | undefined> {
    const first = await readHeadInTime(upstream)
    if (!isAhead || first === undefined || isNear(first.position, position)) return first
    const second = await readHeadInTime(upstream)
    return second !== undefined && isNear(second.position, position) ? second : first
  }

  /** Returns true if a block proves the jump, or if no other upstream of our chain lags behind the position. */
  async #isJumpProven (upstream: Upstream, stamped: ResponsePosition): Promise<boolean> {
    const others = this.#options.pool.upstreams.filter(other => other !== upstream && other.isVerified && other.isUp)
    if (others.length === 0 || await this.#hasBlockNear(upstream, stamped)) return true
    const polled = await Promise.all(
      others.slice(0, maxAskedOthers).map(async other => await readHeadInTime(other))
    )
    const heads = polled.filter(head => head !== undefined)
    return heads.length === 0 || heads.some(head => !isJump(stamped.position.head, head.position.head))
  }

  /** Returns true if the block below a head ends near the head's version and time. */
  async #hasBlockNear (upstream: Upstream, { position: { head } }: ResponsePosition): Promise<boolean> {
    const height = head.blockHeight - 1n
    if (height < 1n) return false
    const response = await upstream.send(probeRequest(blockTarget('height', height))).catch(() => undefined)
    response?.rest?.destroy()
    const isWhole = response?.status === 200 && response.rest === undefined
    const end = isWhole ? readBlockEnd(response.body, height) : undefined
    return end !== undefined && end.version < head.version && !isJump(head, { ...head, ...end }) &&
      !isJump({ ...head, ...end }, head)
  }

  async #compare (
    upstream: Upstream,
    stamped: ResponsePosition,
    wasDown: boolean,
    { recordContradiction, recordChange }: EarlierStatements
  ): Promise<QuarantineReason | undefined> {
    const { pool, spaces, waitForEarlier } = this.#options
    // When upstreams disagree at the start, the first in configuration order that responds decides the chain.
    if (pool.upstreams.every(other => !other.isVerified)) await waitForEarlier(upstream)
    if (await spaces.compare(this.#comparedOf(upstream, stamped, wasDown)) === 'same') return undefined
    const verification = this.#previous.then(async () =>
      await spaces.verifyChain({
        ...this.#comparedOf(upstream, stamped, wasDown),
        isLastReachable: async () => await this.#isLastReachable(upstream),
        recordContradiction,
        recordChange
      })
    )
    // The next verification begins once this upstream counts as verified: after all code that awaits the result has
    // run.
    this.#previous = verification.catch(() => {}).then(async () =>
      await new Promise(resolve => {
        setImmediate(resolve)
      })
    )
    return await verification
  }

  /** Resolves with true if nothing shows that the upstream is on another chain; never changes our chain. */
  async isSameChain (upstream: Upstream, stamped: ResponsePosition): Promise<boolean> {
    const result = await this.#options.spaces.compare(this.#comparedOf(upstream, stamped, true))
    return result === 'same' || result === 'unproven'
  }

  #comparedOf (upstream: Upstream, stamped: ResponsePosition, wasDown: boolean): ComparedUpstream {
    const { referenceUpstream } = this.#options.pool
    const peer = referenceUpstream !== upstream && referenceUpstream?.isVerified === true &&
        referenceUpstream.isUp
      ? referenceUpstream
      : undefined
    const toleratedMs = peer !== undefined ? Infinity : wasDown ? toleratedFailureMs : 0
    const { readBlock, readRoot } = chainReaderOf(upstream)
    return {
      stamped,
      readBlock: async height => await this.#tolerate(upstream, toleratedMs, async () => await readBlock(height)),
      readRoot: async version => await this.#tolerate(upstream, toleratedMs, async () => await readRoot(version)),
      readPeerBlock: peer && chainReaderOf(peer).readBlock
    }
  }

  /**
   * Reads for the comparison. After `toleratedMs` of failures, returns undefined, and the comparison goes on without
   * the read.
   */
  async #tolerate<T> (
    upstream: Upstream,
    toleratedMs: number,
    read: () => Promise<T | undefined>
  ): Promise<T | undefined> {
    try {
      const found = await read()
      this.#failingSince.delete(upstream)
      return found
    } catch (error) {
      const since = this.#failingSince.get(upstream) ?? this.#options.now()
      this.#failingSince.set(upstream, since)
      if (this.#options.now() - since < toleratedMs) throw error
      return undefined
    }
  }

  /** Returns true if no other upstream responds that may be on our chain. */
  async #isLastReachable (upstream: Upstream): Promise<boolean> {
    const others = this.#options.pool.upstreams.filter(other =>
      other !== upstream && other.quarantineReason === undefined
    )
    const reachable = await Promise.all(others.map(async other => await isReachable(other)))
    return !reachable.includes(true)
  }
}

/** Builds the reads that identify the chain of an upstream; they never come from the cache. */
export function chainReaderOf (upstream: Pick<Upstream, 'send'>): ChainReader {
  return {
    readBlock: async height => {
      const found = await fetchWhole(upstream, blockTarget('height', height))
      const hash = found && readFinalBlockHash(found.body, height, found.stamped.position.head.version)
      return hash === undefined ? undefined : { height, hash }
    },
    readRoot: async version => {
      const found = await fetchWhole(upstream, transactionByVersionTarget(version))
      return found && readAccumulatorRoot(found.body, version)
    }
  }
}

/** Builds the reads of our chain from the pool's reference upstream. */
export function referenceOf (pool: UpstreamPool): SpacesOptions['reference'] {
  const reader = (): ChainReader => {
    const { referenceUpstream } = pool
    // Without an upstream nothing is known of the chain, not even that something is missing.
    if (referenceUpstream === undefined) throw new UpstreamFailure('every upstream', 'unreachable', undefined)
    return chainReaderOf(referenceUpstream)
  }
  return {
    readBlock: async height => await reader().readBlock(height),
    readRoot: async version => await reader().readRoot(version),
    readHead: async () => {
      const { referenceUpstream } = pool
      return referenceUpstream && await readHead(async request => await referenceUpstream.send(request))
    }
  }
}

/** Fetches a whole response with a position; undefined if the upstream lacks it. Rejects on 429 and 5xx. */
async function fetchWhole (
  upstream: Pick<Upstream, 'send'>,
  target: string
): Promise<{ readonly body: Buffer, readonly stamped: ResponsePosition } | undefined> {
  const signal = AbortSignal.timeout(maxProofMs)
  const { status, stamped, rest, body } = await upstream.send(probeRequest(target), undefined, signal)
  rest?.destroy()
  if (status === 429 || status >= 500 || (status < 400 && stamped === undefined)) {
    throw new UpstreamFailure('the upstream', 'invalid_response', `${status} for ${target}`)
  }
  return status === 200 && rest === undefined && stamped !== undefined ? { body, stamped } : undefined
}
