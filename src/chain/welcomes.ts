import { type Anchor } from './anchors.js'
import { type StampedPosition } from '../api/position.js'
import { readFinalBlock } from './final-block.js'
import { type Fleet } from '../upstreams/fleet.js'
import { readHead } from './head-poll.js'
import { type Member } from '../upstreams/member.js'
import { type FenceReason } from '../upstreams/welcome.js'
import { type Newcomer } from './generation-options.js'
import { type Generations } from './generations.js'

// A node that was away and fails when it is compared is in passing trouble for so long; after that it is one that
// rations its blocks, and believed where no other is left. One that has only lost a connection is believed there at
// once.
const patienceMs = 5000
// Whoever has no word on where it stands within so long is not on any chain.
const wordMs = 1000

/**
 * How nodes are let in that were away: who is recognised at once, the others one after another, so that each is held
 * against what the one before has settled.
 */
export class Welcomes {
  readonly #fleet: Fleet
  readonly #generations: () => Generations
  readonly #now: () => number
  readonly #inVainSince = new WeakMap<Member, number>()
  #last: Promise<unknown> = Promise.resolve()

  constructor (fleet: Fleet, generations: () => Generations, now: () => number) {
    this.#fleet = fleet
    this.#generations = generations
    this.#now = now
  }

  /** Why a node is not to be believed; undefined where it is. Fails where it cannot be told now. */
  async welcome (member: Member, stamped: StampedPosition, wasAway: boolean): Promise<FenceReason | undefined> {
    if (await this.recognises(member, stamped, wasAway)) return undefined
    const mine = this.#last.then(async () =>
      await this.#generations().welcome(this.#newcomer(member, stamped, wasAway))
    )
    this.#last = mine.catch(() => {})
    return await mine
  }

  /** Whether it is surely of the chain that is served, so that nothing is to be decided. */
  async recognises (member: Member, stamped: StampedPosition, wasAway: boolean): Promise<boolean> {
    return await this.#generations().recognises(this.#newcomer(member, stamped, wasAway))
  }

  #newcomer (member: Member, stamped: StampedPosition, wasAway: boolean): Newcomer {
    const { witness } = this.#fleet
    const peer = witness !== undefined && witness !== member && witness.isBelieved && witness.isUp ? witness : undefined
    return {
      stamped,
      readBlock: async height =>
        await this.#readBlock(member, height, peer !== undefined ? Infinity : wasAway ? patienceMs : 0),
      readPeerBlock: peer && blockReader(peer),
      isAlone: async () => await this.#isAlone(member)
    }
  }

  /**
   * Reads a block of a node that is to be compared; where none could be read for so long, it has to be believed
   * without.
   */
  async #readBlock (member: Member, height: bigint, forMs: number): Promise<Anchor | undefined> {
    try {
      const block = await blockReader(member)(height)
      this.#inVainSince.delete(member)
      return block
    } catch (error) {
      const since = this.#inVainSince.get(member) ?? this.#now()
      this.#inVainSince.set(member, since)
      if (this.#now() - since < forMs) throw error
      return undefined
    }
  }

  /**
   * Whether no other node that answers may be on the chain that is served: each is asked, since one failure does not
   * mean that it is gone.
   */
  async #isAlone (member: Member): Promise<boolean> {
    const others = this.#fleet.members.filter(other => other !== member && other.fence === undefined)
    const words = await Promise.all(others.map(async other => await wordOf(other) ?? await wordOf(other)))
    return words.every(word => word === undefined)
  }
}

/** Reads final blocks of a node by height. */
export function blockReader ({ node }: Member): (height: bigint) => Promise<Anchor | undefined> {
  return async height => await readFinalBlock(async question => await node.ask(question), height)
}

async function wordOf ({ node }: Member): Promise<StampedPosition | undefined> {
  return await readHead(async question => await node.ask(question, Math.min(node.timeoutMs, wordMs)))
}
