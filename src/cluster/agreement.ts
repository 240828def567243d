import { randomUUID } from 'node:crypto'
import { type Tracker } from '../chain/tracker.js'
import { type LiveReleases } from '../upstreams/live-releases.js'
import { type RedisLink } from '../redis/link.js'
import { type Control, type ControlState } from './control.js'
import { type Generations } from '../chain/generations.js'
import { type News } from './news.js'
import { type Purges } from './purges.js'
import { type Message, type Sign } from '../chain/words.js'

/** What replicas need to agree. */
export interface AgreementOptions {
  readonly link: RedisLink
  readonly control: Control
  readonly generations: Generations
  readonly purges: Purges
  readonly news: News
  readonly tracker: Tracker
  readonly releases: LiveReleases
  readonly now: () => number
  /**
   * Told when it is known what the others say: before that, after an outage, another chain may bear this one's number.
   */
  readonly onHeard: () => void
  /** Told after each look, when it may have become clear what is to be written. */
  readonly onLooked: () => void
}

// Twice within the second that the others may take to hear of anything.
const lookEveryMs = 450
const rememberEveryMs = 5000
// A replica that has given no sign for so long is gone, and its nodes' releases with it.
const silentMs = 10_000
const signEveryMs = 2000

/**
 * Keeps this replica and the others of one mind: it looks at what they share twice a second and when it is told to, and
 * publishes what is missing there.
 */
export class Agreement {
  readonly #options: AgreementOptions
  readonly #name = randomUUID()
  readonly #heard = new Map<string, Sign & { readonly atMs: number }>()
  #timer: NodeJS.Timeout | undefined
  #underWay: Promise<void> | undefined
  #isToldAgain = false
  #beat = 0
  #toldOf: number | undefined
  #signedAt = -Infinity
  #remembered: { readonly text: string, readonly atMs: number } | undefined

  constructor (options: AgreementOptions) {
    this.#options = options
  }

  start (): void {
    this.#timer = setInterval(() => {
      this.look().catch(() => {})
    }, lookEveryMs).unref()
  }

  stop (): void {
    clearInterval(this.#timer)
  }

  /** Looks now; who is told so while a look is under way looks once more after it. */
  async look (): Promise<void> {
    if (this.#underWay !== undefined) this.#isToldAgain = true
    this.#underWay ??= this.#lookAndAgain().finally(() => {
      this.#underWay = undefined
    })
    await this.#underWay
  }

  /** Takes in what another replica says. */
  hear (message: Message): void {
    const { tracker } = this.#options
    if (message.kind === 'look') this.look().catch(() => {})
    else if (message.generation === tracker.chain?.generation) tracker.hear(message.stamped)
  }

  /** Where no node answers: the chain and generation that all upstreams were last known to have, if it is one. */
  async recall (): Promise<void> {
    const { control, generations, tracker } = this.#options
    if (tracker.chain !== undefined) return
    const upstreams = await control.upstreams()
    const [first] = upstreams
    if (first === undefined || upstreams.some(({ chainId }) => chainId !== first.chainId)) return
    generations.recall(first.chainId, upstreams, await control.read(first.chainId))
  }

  async #lookAndAgain (): Promise<void> {
    do {
      this.#isToldAgain = false
      await this.#look()
    } while (this.#isToldAgain)
  }

  async #look (): Promise<void> {
    const { link, control, generations, purges, tracker } = this.#options
    const chainId = tracker.chain?.id
    if (!link.isUp || chainId === undefined) return
    const state = await control.read(chainId)
    await generations.hear(state)
    this.#options.onHeard()
    this.#hearReplicas(state)
    // What is to be read comes before what is to be written, which a full server or a replica of one refuses.
    await purges.look(chainId)
    try {
      await this.#publish(chainId, state)
      if (purges.hasPending) await purges.deliver()
    } finally {
      // Whoever is refused that goes on all the same: entries that wait are to be written, or to be told of as refused
      // too.
      this.#options.onLooked()
    }
  }

  /** Publishes what the control key lacks, be it new or lost. */
  async #publish (chainId: number, state: ControlState): Promise<void> {
    const { control, generations, tracker, releases, now } = this.#options
    if (!generations.isAgreed || tracker.chain === undefined) return
    const { generation } = tracker.chain
    const known = state.generations.get(generation)
    const { own } = generations
    const isBehind = (known?.head?.position.head.version ?? -1n) < (own.head?.position.head.version ?? -1n)
    const lacks = known === undefined ||
      own.anchors.some(({ height }) => !known.anchors.some(anchor => anchor.height === height))
    // Whoever keys by it has proven it, and the others need not.
    if (isBehind || lacks || known.isUnproven === true) {
      await control.publish(chainId, generation, own, state.generations.keys())
    }
    if (!state.generations.has(generation) || this.#toldOf !== generation) await this.#options.news.tell(chainId)
    this.#toldOf = generation
    if (now() - this.#signedAt >= signEveryMs || !state.replicas.has(this.#name)) {
      this.#signedAt = now()
      const gone = [...this.#heard].filter(([, { atMs }]) => now() - atMs > silentMs).map(([name]) => name)
      for (const name of gone) this.#heard.delete(name)
      await control.sign(chainId, this.#name, { beat: ++this.#beat, releases: releases.own }, gone)
    }
    await this.#remember(chainId, generation)
  }

  /**
   * What the living replicas' nodes run; a replica lives while its beat rises, whatever the clocks say and whatever is
   * lost of what it said.
   */
  #hearReplicas ({ replicas }: ControlState): void {
    const nowMs = this.#options.now()
    for (const [name, { beat, releases }] of replicas) {
      if (name !== this.#name && this.#heard.get(name)?.beat !== beat) {
        this.#heard.set(name, { beat, releases, atMs: nowMs })
      }
    }
    const live = [...this.#heard.values()].filter(({ atMs }) => nowMs - atMs <= silentMs)
    this.#options.releases.heard(live.flatMap(({ releases }) => releases))
  }

  /** Should the control key be lost while no replica runs, this is what a chain that has taken its place is told by. */
  async #remember (chainId: number, generation: number): Promise<void> {
    const { control, generations: { own }, now } = this.#options
    const text = [chainId, generation, ...own.anchors.map(({ hash }) => hash)].join(' ')
    if (this.#remembered?.text === text && now() - this.#remembered.atMs < rememberEveryMs) return
    this.#remembered = { text, atMs: now() }
    await control.rememberUpstreams({ chainId, generation, ...own })
  }
}
