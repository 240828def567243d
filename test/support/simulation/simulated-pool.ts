import { createHash } from 'node:crypto'
import { type Test } from 'tap'
import { renderingOf } from '../../../sandbox/release.js'
import { type Chain, type Era } from './chain.js'
import { type UpstreamMoment } from './upstream-history.js'
import { SimulatedUpstream } from './simulated-upstream.js'

/** The time that a read took, from before it was sent until it was answered. */
export interface TimeSpan {
  readonly from: number
  readonly to: number
}

/** A mended node is used again within two seconds; the rest is for timers that fire late. */
export const recoveryMs = 2250
/** The chain's name is believed no longer than until a mended node has been met, or the head asked for again. */
export const noticeResetMs = recoveryMs + 1250
/** How long a release is taken for running that no node runs any more (law 8: learned at least every 15 s). */
export const releaseMs = 16_500
/** The chain grows so often; where a block is later than this, the machine had other things to do. */
export const blockMs = 200
const lateMs = 2.5 * blockMs

// Windows of several lengths, so that a version is gone from one and there at another; the shortest reaches back
// further than the blocks that varve knows the chain by can be old.
const usualWindow = (at: number): number => 400 * (at + 1)

/** The nodes, and the model of what each could have answered and when. */
export class SimulatedPool {
  readonly upstreams: readonly SimulatedUpstream[]
  readonly #chain: Chain
  #releases = 1
  #walkedAt = 0
  #grownAt = performance.now()
  readonly #stalls: TimeSpan[] = []
  readonly #oldests = new Set<string>()

  private constructor (chain: Chain, nodes: readonly SimulatedUpstream[]) {
    this.#chain = chain
    this.upstreams = nodes
    this.#noteOldest()
  }

  static async start (t: Test, chain: Chain, count: number, windowBlocksOf = usualWindow): Promise<SimulatedPool> {
    const nodes: SimulatedUpstream[] = []
    for (let at = 0; at < count; at++) {
      nodes.push(await SimulatedUpstream.start(t, `node-${at + 1}`, windowBlocksOf(at), chain.current, releaseOf(0)))
    }
    return new SimulatedPool(chain, nodes)
  }

  grow (): void {
    const now = performance.now()
    if (now - this.#grownAt > lateMs) this.#stalls.push({ from: this.#grownAt, to: now })
    this.#grownAt = now
    this.#chain.grow()
    for (const node of this.upstreams) node.grow()
    this.#noteOldest()
  }

  /** A release that nobody has run before. */
  newRelease (): string {
    return releaseOf(this.#releases++)
  }

  /** Every release that was ever run. */
  get releases (): string[] {
    return Array.from({ length: this.#releases }, (_, at) => releaseOf(at))
  }

  /** Notes that every node has come to the newest era. */
  noteResetDone (): void {
    this.#walkedAt = performance.now()
  }

  /** The era that must have been noticed by some time, whatever was shown. */
  requiredEra (at: number): number {
    const { index } = this.#chain.current
    const isDue = this.#walkedAt + noticeResetMs < at &&
      this.#isAny({ from: at, to: at }, noticeResetMs, ({ condition, era }) => condition === 'up' && era === index)
    return isDue ? index : 0
  }

  /**
   * Whether a node lived for all of a read, and long enough before, that was on that chain and had what the read needs.
   */
  hadCapableUpstream (
    { index }: Era,
    span: TimeSpan,
    has: (window: { oldest: bigint, head: bigint }) => boolean = () => true
  ): boolean {
    const isOf = ({ condition, era }: UpstreamMoment): boolean => condition === 'up' && era === index
    return this.upstreams.some(({ history }) =>
      history.between(span.from - recoveryMs, span.to).every(isOf) && history.between(span.from, span.to).every(has)
    )
  }

  /** Whether every node lived for all of a read, and long enough before, and was on that chain. */
  wereAllUp ({ index }: Era, { from, to }: TimeSpan): boolean {
    return this.upstreams.every(({ history }) =>
      history.between(from - recoveryMs, to).every(({ condition, era }) => condition === 'up' && era === index)
    )
  }

  /** The same where what a node has must have been there long enough to be known. */
  hadKnownCapableUpstream (
    { index }: Era,
    span: TimeSpan,
    has: (window: { oldest: bigint, head: bigint }) => boolean,
    graceMs = recoveryMs
  ): boolean {
    return this.#isAny(span, graceMs, moment => moment.condition === 'up' && moment.era === index && has(moment))
  }

  /**
   * Whether every node may be known to lack a version: none that is on that chain had it whenever it was last heard of
   * (law 11).
   */
  mayBePrunedEverywhere ({ index }: Era, { from, to }: TimeSpan, version: bigint): boolean {
    return this.upstreams.every(({ history }) =>
      history.known(from, to, recoveryMs).some(({ era, oldest }) => era !== index || oldest > version)
    )
  }

  /** Whether every node must be known to lack a version. */
  mustBePrunedEverywhere ({ index }: Era, { from, to }: TimeSpan, version: bigint): boolean {
    return this.upstreams.every(({ history }) =>
      history.known(from, to, recoveryMs).every(({ era, oldest }) => era === index && oldest > version)
    )
  }

  /** Whether any node was of a kind at any time of a read. */
  wasAnyUpstream ({ from, to }: TimeSpan, isSo: (moment: UpstreamMoment) => boolean): boolean {
    return this.upstreams.some(({ history }) => history.between(from, to).some(isSo))
  }

  /**
   * Whether nothing went on for a while, neither nodes nor varve nor this run: whoever then waits for half a second in
   * vain tells of the machine.
   */
  wasStalled ({ from, to }: TimeSpan): boolean {
    return to - this.#grownAt > lateMs || this.#stalls.some(each => each.from < to && each.to > from - recoveryMs)
  }

  /** How long that was. */
  get stalledMs (): number {
    return Math.round(this.#stalls.reduce((sum, { from, to }) => sum + to - from, 0))
  }

  /** Whether any node ever stood at this oldest version. */
  hadOldest ({ index }: Era, oldest: bigint): boolean {
    const name = `${index} ${oldest}`
    if (!this.#oldests.has(name)) this.#noteOldest()
    return this.#oldests.has(name)
  }

  /** The releases that a node may be known to run. */
  releasesIn ({ from, to }: TimeSpan): Set<string> {
    return new Set(
      this.upstreams.flatMap(({ history }) => history.between(from - releaseMs, to).map(({ release }) => release))
    )
  }

  // The moments themselves are forgotten after a while.
  #noteOldest (): void {
    for (const { history } of this.upstreams) {
      for (const { era, oldest } of history.between(performance.now() - 1000, Infinity)) {
        this.#oldests.add(`${era} ${oldest}`)
      }
    }
  }

  #isAny ({ from, to }: TimeSpan, graceMs: number, isSo: (moment: UpstreamMoment) => boolean): boolean {
    return this.upstreams.some(({ history }) => history.between(from - graceMs, to).every(isSo))
  }
}

// Each is rendered otherwise than the one before.
function releaseOf (nth: number): string {
  for (let turn = 0;; turn++) {
    const release = createHash('sha1').update(`release ${nth} ${turn}`).digest('hex')
    const { isEnum, variants } = renderingOf(release)
    if (Number(isEnum) + Number(variants) === nth % 3) return release
  }
}
