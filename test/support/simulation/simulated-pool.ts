import { createHash } from 'node:crypto'
import { type Test } from 'tap'
import { renderingOf } from '../../../sandbox/module-abi.js'
import { type Chain, type Era } from '../model/chain.js'
import { type UpstreamMoment } from './upstream-history.js'
import { SimulatedUpstream } from './simulated-upstream.js'

/** Time from before a read was sent until its response. */
export interface TimeSpan {
  readonly from: number
  readonly to: number
}

/** Time until a fixed upstream is used again: two seconds by contract, and a margin for late timers. */
export const recoveryMs = 2250
/** Time until a reset is noticed: when a fixed upstream is compared, or at the next poll. */
export const noticeResetMs = recoveryMs + 1250
/** Time for which an ended release counts as running, as polls are 15 s apart (law 8: rendering can change). */
export const releaseMs = 16_500
/** Block interval; a block later than this shows that the machine was busy. */
export const blockMs = 200
const lateMs = 2.5 * blockMs

// Window sizes that differ, so that versions are pruned on one upstream only; the shortest covers varve's anchors.
const usualWindow = (at: number): number => 400 * (at + 1)

/** The upstreams, and a model of their possible responses over time. */
export class SimulatedPool {
  readonly upstreams: readonly SimulatedUpstream[]
  readonly #chain: Chain
  #releases = 1
  #walkedAt = 0
  #grownAt = performance.now()
  readonly #stalls: TimeSpan[] = []
  readonly #oldests = new Set<string>()

  private constructor (chain: Chain, upstreams: readonly SimulatedUpstream[]) {
    this.#chain = chain
    this.upstreams = upstreams
    this.#noteOldest()
  }

  static async start (t: Test, chain: Chain, count: number, windowBlocksOf = usualWindow): Promise<SimulatedPool> {
    const upstreams: SimulatedUpstream[] = []
    for (let at = 0; at < count; at++) {
      upstreams.push(
        await SimulatedUpstream.start(t, `node-${at + 1}`, windowBlocksOf(at), chain.current, releaseOf(0))
      )
    }
    return new SimulatedPool(chain, upstreams)
  }

  grow (): void {
    const now = performance.now()
    if (now - this.#grownAt > lateMs) this.#stalls.push({ from: this.#grownAt, to: now })
    this.#grownAt = now
    this.#chain.grow()
    for (const upstream of this.upstreams) upstream.grow()
    this.#noteOldest()
  }

  /** Returns a release that never ran before. */
  newRelease (): string {
    return releaseOf(this.#releases++)
  }

  /** Returns every release that ever ran. */
  get releases (): string[] {
    return Array.from({ length: this.#releases }, (_, at) => releaseOf(at))
  }

  /** Notes that every upstream has reached the newest era. */
  noteResetDone (): void {
    this.#walkedAt = performance.now()
  }

  /** Returns the era that varve must have noticed by a time; polls of a machine that stood still prove nothing. */
  requiredEra (at: number): number {
    const { index } = this.#chain.current
    const isDue = this.#walkedAt + noticeResetMs < at && !this.wasStalled({ from: at - noticeResetMs, to: at }) &&
      this.#isAny({ from: at, to: at }, noticeResetMs, ({ condition, era }) => condition === 'up' && era === index)
    return isDue ? index : 0
  }

  /** True if an upstream on that chain was healthy for the whole read and before, and had what it needs. */
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

  /** True if every upstream was healthy on that chain for the whole read and before. */
  wereAllUp ({ index }: Era, { from, to }: TimeSpan): boolean {
    return this.upstreams.every(({ history }) =>
      history.between(from - recoveryMs, to).every(({ condition, era }) => condition === 'up' && era === index)
    )
  }

  /** The same, if varve also had time to learn the upstream's window. */
  hadKnownCapableUpstream (
    { index }: Era,
    span: TimeSpan,
    has: (window: { oldest: bigint, head: bigint }) => boolean,
    graceMs = recoveryMs
  ): boolean {
    return this.#isAny(span, graceMs, moment => moment.condition === 'up' && moment.era === index && has(moment))
  }

  /** True if no upstream of that chain reported a version lately, so a 410 is allowed (law 11: "gone" is a fact). */
  mayBePrunedEverywhere ({ index }: Era, { from, to }: TimeSpan, version: bigint): boolean {
    return this.upstreams.every(({ history }) =>
      history.known(from, to, recoveryMs).some(({ era, oldest }) => era !== index || oldest > version)
    )
  }

  /** True if every upstream must be known to lack a version. */
  mustBePrunedEverywhere ({ index }: Era, { from, to }: TimeSpan, version: bigint): boolean {
    return this.upstreams.every(({ history }) =>
      history.known(from, to, recoveryMs).every(({ era, oldest }) => era === index && oldest > version)
    )
  }

  /** True if any upstream matched at any time of a read. */
  wasAnyUpstream ({ from, to }: TimeSpan, isSo: (moment: UpstreamMoment) => boolean): boolean {
    return this.upstreams.some(({ history }) => history.between(from, to).some(isSo))
  }

  /** True if the whole process stalled for a while: upstreams, varve and this run, so timeouts prove nothing. */
  wasStalled ({ from, to }: TimeSpan): boolean {
    return to - this.#grownAt > lateMs || this.#stalls.some(each => each.from < to && each.to > from - recoveryMs)
  }

  /** Total time of stalls. */
  get stalledMs (): number {
    return Math.round(this.#stalls.reduce((sum, { from, to }) => sum + to - from, 0))
  }

  /** True if any upstream ever had this oldest version. */
  hadOldest ({ index }: Era, oldest: bigint): boolean {
    const name = `${index} ${oldest}`
    if (!this.#oldests.has(name)) this.#noteOldest()
    return this.#oldests.has(name)
  }

  /** Returns the releases that an upstream may be known to run. */
  releasesIn ({ from, to }: TimeSpan): Set<string> {
    return new Set(
      this.upstreams.flatMap(({ history }) => history.between(from - releaseMs, to).map(({ release }) => release))
    )
  }

  // Stores oldest versions separately, because histories are truncated.
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

// Returns a release that renders differently from the one before.
function releaseOf (nth: number): string {
  for (let attempt = 0;; attempt++) {
    const release = createHash('sha1').update(`release ${nth} ${attempt}`).digest('hex')
    const { isEnum, variants } = renderingOf(release)
    if (Number(isEnum) + Number(variants) === nth % 3) return release
  }
}
