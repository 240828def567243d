import { type Oldest } from '../api/position.js'
import { type Answer } from '../api/answer.js'
import { type Asks, type Attempt, Attempts, type Look } from './attempts.js'
import { bestOf, type Given, isForgetful, isOfItself, longestIn } from './best-answer.js'
import { type Hedges, settled } from './hedges.js'
import { type LiveReleases } from './live-releases.js'
import { type Member } from './member.js'
import { NodeFailure, wasNotAsked } from './node-failure.js'
import { type Question } from './question.js'
import { inOrder, isAsGood, mayHold, mayStillHave, remembersMore, type Route } from './route.js'
import { type Spare, spareIn, type Word } from './spare.js'
import { type Recall } from './taking-back.js'

/** The clock that a fleet goes by, and who is told of what it comes to. */
export interface FleetOptions {
  readonly wallClockMs: () => number
  /** How far back the history goes that live nodes can serve, after every word of one. */
  onOldest(oldest: Oldest): void
  /** Nobody is left to ask but who is fenced: resolves when it is known whether one has been mended. */
  onNobody(): Promise<void>
}

type Tries = (member: Member, timeoutMs: number | undefined, signal?: Recall) => Promise<Attempt>

/**
 * All nodes of the configuration: each question goes to the one that can best answer it, and to the next where that one
 * fails.
 */
export class Fleet {
  #members: readonly Member[]
  // How a second node is asked beside one that takes its time; undefined where that is not wished.
  #hedges: Hedges | undefined
  readonly #releases: Pick<LiveReleases, 'isGone'>
  readonly #options: FleetOptions
  readonly #attempts: Attempts
  #spared = 0

  constructor (
    members: readonly Member[],
    hedges: Hedges | undefined,
    releases: Pick<LiveReleases, 'isGone'>,
    options: FleetOptions
  ) {
    this.#members = members
    this.#hedges = hedges
    this.#releases = releases
    this.#options = options
    this.#attempts = new Attempts(options.wallClockMs, () => {
      this.#tellOldest()
    })
  }

  /** All of them, in the order of the configuration. */
  get members (): readonly Member[] {
    return this.#members
  }

  /** Asks these from now on; what is under way ends where it is. */
  exchange (members: readonly Member[], hedges: Hedges | undefined): void {
    this.#members = members
    this.#hedges = hedges
  }

  /**
   * Asks one node after another until one answers; of those that did not, the most telling real answer. Throws where
   * there was none.
   */
  ask (question: Question, route: Route, look: Look): Promise<Answer> {
    const hedges = this.#hedges
    hedges?.earn()
    return this.#inTurn(
      route,
      (member, timeoutMs, signal) => this.#attempts.ask(member, question, look, timeoutMs, signal),
      hedges
    )
  }

  /**
   * The same for what is handed on as it comes: another node is asked only before the first byte, and only where asking
   * twice asks for nothing more.
   */
  async pass (question: Question, route: Route, look: Look, signal: AbortSignal): Promise<Answer> {
    const ask: Asks = (member, timeoutMs) => member.pass(question, signal, timeoutMs)
    const tries: Tries = (member, timeoutMs) => this.#attempts.read(member, look, timeoutMs, ask)
    return question.isIdempotent ? await this.#inTurn(route, tries, undefined, signal) : await this.#once(route, tries)
  }

  /**
   * Asks, once, one that has turns to spare, each of several in its turn; undefined where there is none, or it fails.
   */
  async askSpare (question: Question, wanted: Spare, look: Look): Promise<Word | undefined> {
    const able = spareIn(this.#members, wanted)
    const member = able[this.#spared++ % able.length]
    const attempt = member &&
      await this.#attempts.ask(member, question, look, undefined, undefined).catch(() => undefined)
    if (member === undefined || attempt === undefined) return undefined
    if (attempt.flaw === undefined) return { node: member.node.name, answer: attempt.answer }
    attempt.answer.rest?.destroy()
    return undefined
  }

  /** Asks one of them of itself, fenced or not; how it answers tells how it is. */
  async probe (member: Member, question: Question): Promise<Answer> {
    return await this.#attempts.probe(member, question)
  }

  /** Whether a version is gone from all of them, by the windows that they last stamped on an answer (law 11). */
  lacks (version: bigint): boolean {
    return this.#unfenced.length > 0 &&
      this.#unfenced.every(({ window }) => window !== undefined && version < window.oldest)
  }

  /** Whether asking once more may find one further than the last: a single address may have several nodes behind it. */
  mayHaveReached (version: bigint): boolean {
    const [only, ...others] = this.#members
    return only !== undefined && others.length === 0 && version <= only.standing.furthest
  }

  /**
   * Whether no live node runs a release any more; while none is known to live, every entry counts as current (law 8).
   */
  isGone (release: string): boolean {
    return this.#members.some(({ isUp }) => isUp) && this.#releases.isGone(release)
  }

  /** The chain is another one now: what they said of themselves was of the one before. */
  forget (chainId: number | undefined): void {
    for (const member of this.#members) member.forget(chainId)
  }

  /** The node to be asked of its chain: one that is believed, else one that answers. */
  get witness (): Member | undefined {
    const unfenced = this.#unfenced
    return unfenced.find(({ isUp, isBelieved }) => isUp && isBelieved) ?? unfenced.find(({ node }) => node.up) ??
      unfenced[0]
  }

  get #unfenced (): Member[] {
    return this.#members.filter(({ fence }) => fence === undefined)
  }

  async #once (route: Route, tries: Tries): Promise<Answer> {
    if (this.#unfenced.length === 0) await this.#options.onNobody()
    const [first] = inOrder(this.#unfenced, route)
    const given = first && await tries(first, undefined)
    if (given === undefined || given.flaw === 'untrue') throw nobody()
    return given.answer
  }

  async #inTurn (route: Route, tries: Tries, hedges: Hedges | undefined, signal?: AbortSignal): Promise<Answer> {
    if (this.#unfenced.length === 0) await this.#options.onNobody()
    const tried = new Set<Member>()
    const flawed: Given[] = []
    const failures: unknown[] = []
    // Chosen anew for each attempt: what one has said of itself, or of how it is, may put another before the rest.
    const left = (): Member[] =>
      inOrder(this.#unfenced, route).filter(candidate => !tried.has(candidate) && mayDoBetter(candidate, route, flawed))
    for (;;) {
      const [member, ...others] = left()
      if (member === undefined || signal?.aborted === true) break
      const asks = (one: Member, taking?: Recall): Promise<Attempt> => {
        tried.add(one)
        return tries(
          one,
          others.some(other => other !== one && isPromising(other, route)) ? one.node.timeoutMs / 2 : undefined,
          taking
        )
      }
      const came = hedges === undefined || others.length === 0
        ? [await settled(member, asks(member))]
        : await hedges.ask(member, () => left().find(other => isIdle(other) && isAsGood(other, member, route)), asks)
      for (const { member: one, attempt, error } of came) {
        if (attempt === undefined) failures.push(error)
        else if (attempt.flaw === undefined) {
          letGo(flawed)
          return attempt.answer
        } else if (attempt.flaw !== 'untrue') flawed.push({ answer: attempt.answer, flaw: attempt.flaw, member: one })
      }
    }
    return this.#settledOn(flawed, route, failures)
  }

  /**
   * What is handed on where no node answered as it should: what a sick one says of itself only where each was asked,
   * since one that had no turn left may answer soon; that history is gone, or never was, only where none that may have
   * it was out of reach (law 11).
   */
  #settledOn (flawed: readonly Given[], route: Route, failures: readonly unknown[]): Answer {
    const unasked = failures.find(wasNotAsked)
    const failure = unasked ?? failures.at(-1) ?? nobody()
    const best = bestOf(unasked === undefined ? flawed : flawed.filter(given => !isOfItself(given)), route)
    letGo(flawed.filter(given => given !== best))
    if (best === undefined) throw failure
    const longest = isForgetful(best) ? longestIn(flawed) : undefined
    const hasSpoken = (member: Member): boolean =>
      flawed.some(given => given.member === member && (isForgetful(given) || given.flaw === 'behind'))
    if (
      longest === undefined ||
      !this.#unfenced.some(member => !hasSpoken(member) && remembersMore(member, route, longest.member))
    ) return best.answer
    letGo([best])
    throw failure
  }

  #tellOldest (): void {
    let oldest: Oldest | undefined
    for (const { isUp, standing } of this.#members) {
      const its = isUp ? standing.stamped?.position.oldest : undefined
      if (its !== undefined && (oldest === undefined || its.version < oldest.version)) oldest = its
    }
    if (oldest !== undefined) this.#options.onOldest(oldest)
  }
}

// Where one has forgotten, or has nothing, only one that remembers more can do better; where it lags besides, whoever
// is ahead may.
function mayDoBetter (candidate: Member, route: Route, flawed: readonly Given[]): boolean {
  return flawed.every(given =>
    (given.flaw !== 'gone' && given.flaw !== 'thin') || mayStillHave(candidate, route, given.member)
  )
}

// Worth half of the time: who is down would only take it from the one that answers.
function isPromising (member: Member, route: Route): boolean {
  return (member.isUp || member.isUnheard) && member.health.isWell && mayHold(member, route)
}

// Less than half of what may be asked of it is asked, and nothing waits.
function isIdle ({ isUp, node: { budget } }: Member): boolean {
  return isUp && !budget.isTight()
}

function nobody (): NodeFailure {
  return new NodeFailure('every node', 'unreachable', undefined)
}

function letGo (given: ReadonlyArray<Pick<Given, 'answer'>>): void {
  for (const { answer } of given) answer.rest?.destroy()
}
