import { type StampedPosition } from '../api/position.js'
import { Afresh } from './afresh.js'
import { rememberedIn } from './candidates.js'
import { Comparing } from './comparing.js'
import { type ControlState } from '../cluster/control.js'
import { type GenerationOptions, type Newcomer } from './generation-options.js'
import { Hearing } from './hearing.js'
import { Marks } from './marks.js'
import { MarkRenewal } from './mark-renewal.js'
import { settleOn } from './settling.js'
import { type KnownGeneration, type UpstreamChain } from './words.js'

/** Which generation of the chain this process keys by, and the blocks by which that chain is known again (law 7). */
export class Generations {
  readonly #options: GenerationOptions
  readonly #marks: Marks
  readonly #hearing: Hearing
  readonly #afresh: Afresh
  // Whether what the other replicas know was heard when the generation was settled.
  #isAgreed: boolean
  // A reset leaves every generation up to this one behind.
  #ruledOut = 0
  #settling: Promise<void> | undefined
  #resets = 0
  // Keyed by what upstreams were last known to have, and whether nobody else tells of that.
  #recalled: { readonly isAlone: boolean } | undefined
  readonly #renewal: MarkRenewal
  readonly #comparing: Comparing

  constructor (options: GenerationOptions) {
    this.#options = options
    this.#marks = new Marks(options)
    this.#renewal = new MarkRenewal(this.#marks, options.now)
    this.#comparing = new Comparing(options.tracker, this.#marks, () => `${options.tracker.generation} ${this.#resets}`)
    this.#hearing = new Hearing(options, this.#marks, this)
    this.#afresh = new Afresh(options, this)
    this.#isAgreed = options.control === undefined
  }

  /** What this process knows of its own generation. */
  get own (): KnownGeneration {
    return { anchors: this.#marks.list, head: this.#options.tracker.stamped }
  }

  /**
   * Whether keys mean the same to every replica: not where another chain may bear this number, nor before an own one
   * has been claimed.
   */
  get isAgreed (): boolean {
    return this.#isAgreed && !this.#afresh.isPending
  }

  /** Whether everything was purged here and the others could not be told yet. */
  get isLeaving (): boolean {
    return this.#afresh.isPending
  }

  /** Whether a node that was away is surely of the chain that is keyed by, so that nothing is to be decided. */
  async recognises (newcomer: Newcomer): Promise<boolean> {
    const { tracker } = this.#options
    const { position } = newcomer.stamped
    if (tracker.chain?.id !== position.chainId || this.#recalled !== undefined) return false
    this.#hearing.askAgain()
    return await this.#comparing.find(newcomer) === 'same'
  }

  /**
   * Before a node that was away is believed: why it is not to be, where its chain is another one and others are left on
   * this one.
   */
  async welcome (newcomer: Newcomer): Promise<string | undefined> {
    const { tracker } = this.#options
    const { stamped, isAlone } = newcomer
    // What was recalled is only what the node last had, and yields to what it says now.
    const recalled = this.#recalled
    this.#recalled = undefined
    if (recalled !== undefined && tracker.chainId !== stamped.position.chainId) {
      tracker.unsettle()
      this.#marks.replace([])
    }
    if (tracker.chainId !== undefined && tracker.chainId !== stamped.position.chainId) {
      return `it serves chain ${stamped.position.chainId}, not ${tracker.chainId}`
    }
    this.#hearing.askAgain()
    if (tracker.chain === undefined) await this.settle(stamped)
    else {
      const found = await this.#comparing.find(newcomer, recalled?.isAlone)
      if (found === 'older') return 'it serves an older chain of the same name'
      if (found === 'other' && !await isAlone()) return 'it serves another chain of the same name'
      if (found === 'other') {
        await this.begin(stamped)
        // Before anybody else is let in: one of the old chain that lags behind the new one shows in nothing else.
        await this.#marks.spread(stamped.position, newcomer.readBlock)
      }
    }
    this.#renewal.begin()
    return undefined
  }

  /** The head moves on, as a node that is believed has stamped it. */
  async renew ({ position }: StampedPosition): Promise<void> {
    if (position.chainId === this.#options.tracker.chainId) await this.#renewal.renew(position)
  }

  /**
   * Another chain bears the name of this one, as a position has told; with nothing shared the tracker has begun a new
   * generation by itself.
   */
  wasReset (stamped: StampedPosition): void {
    const { tracker, control, events } = this.#options
    this.#marks.replace([])
    this.#renewal.forget()
    this.#resets++
    if (control === undefined) return events.onGeneration(tracker.generation)
    this.#ruledOut = tracker.generation
    // What is being settled for the old chain comes to nothing.
    const earlier = this.#settling ?? Promise.resolve()
    this.#begun(earlier.then(async () => {
      await this.#settle(stamped)
    })).catch(() => {})
  }

  /**
   * Settles which generation a node's chain is: the highest that it may be, or a new one above all. Callers at the same
   * time share one decision.
   */
  async settle (stamped: StampedPosition): Promise<void> {
    await (this.#settling ?? this.#begun(this.#settle(stamped)))
  }

  /** Resolves when nothing is being settled. */
  async settled (): Promise<void> {
    await this.#settling
  }

  /** What the other replicas know now. */
  async hear (state: ControlState): Promise<void> {
    const { tracker, readHead } = this.#options
    if (tracker.chain === undefined) return
    if (this.#isAgreed) await this.#hearing.hear(state)
    else {
      const now = await readHead() ?? tracker.stamped
      if (now !== undefined) await this.settle(now)
    }
    if (this.#isAgreed && this.isLeaving) await this.#afresh.claim()
  }

  /** With no node to ask: keys by what upstreams were last known to have, unless it could mean two chains. */
  recall (chainId: number, upstreams: readonly UpstreamChain[], state: ControlState): void {
    const { tracker } = this.#options
    if (tracker.chain !== undefined || (tracker.chainId !== undefined && tracker.chainId !== chainId)) return
    const remembered = rememberedIn(state, upstreams)
    if (remembered === undefined) return
    const [generation, known] = remembered
    tracker.settle({ id: chainId, generation }, known.head, false)
    this.#marks.replace(known.anchors)
    this.#isAgreed = true
    this.#recalled = { isAlone: !state.generations.has(generation) }
  }

  /** Leaves everything that is kept behind: here at once, and everywhere when the others can be told. */
  startAfresh (): void {
    this.#afresh.begin()
  }

  /** Two that began at once with two chains of one name have taken the same number: one goes on. */
  async leave (generation: number): Promise<void> {
    this.#ruledOut = generation
    const { stamped } = this.#options.tracker
    if (stamped !== undefined) await this.settle(stamped)
  }

  async #begun (settling: Promise<void>): Promise<void> {
    this.#settling = settling
    await settling.finally(() => {
      if (this.#settling === settling) this.#settling = undefined
    })
  }

  async #settle (stamped: StampedPosition): Promise<void> {
    const { tracker, events } = this.#options
    const resets = this.#resets
    const { generation, known, isAgreed } = await settleOn(stamped, this.#options, this.#marks, this.#ruledOut)
    if (resets !== this.#resets) return
    const before = tracker.generation
    this.#isAgreed = isAgreed
    tracker.settle({ id: stamped.position.chainId, generation }, known.head ?? stamped, true)
    if (generation !== before) events.onGeneration(generation)
  }

  /** Goes over to a generation that another replica, or an operator, has begun. */
  adopt (generation: number, known: KnownGeneration, isSameChain: boolean): void {
    const { tracker } = this.#options
    if (tracker.chainId === undefined) return
    tracker.settle({ id: tracker.chainId, generation }, known.head, isSameChain)
    if (isSameChain) this.#marks.add(known.anchors)
    else this.#marks.replace(known.anchors)
    if (!isSameChain) this.#options.events.onReplaced()
    this.#options.events.onGeneration(generation)
  }

  /** Begins anew, since a node has shown that its chain is another one. */
  async begin (stamped: StampedPosition): Promise<void> {
    this.#options.tracker.reset(stamped)
    await this.#settling
  }
}
