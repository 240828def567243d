import { type Condition } from './simulated-upstream.js'

/** How a node was from one moment on. */
export interface UpstreamMoment {
  readonly at: number
  readonly condition: Condition
  readonly era: number
  readonly release: string
  readonly oldest: bigint
  readonly head: bigint
}

// Longer than any grace looks back.
const keptMs = 60_000

/**
 * The record of a node: how it was at every moment of the last minute, so that a read is judged by all of the time that
 * it took.
 */
export class UpstreamHistory {
  #list: UpstreamMoment[] = []

  note (moment: UpstreamMoment): void {
    this.#list.push(moment)
    if (this.#list.length < 2000) return
    const first = this.#list.findLastIndex(({ at }) => at < moment.at - keptMs)
    // A node that is down for long is still known by how it last was.
    const lastUp = this.#list.findLastIndex(({ condition }) => condition === 'up')
    this.#list = this.#list.slice(Math.max(0, Math.min(first, lastUp)))
  }

  /** How it was from one time to another: the moment that had begun before, and all that began between. */
  between (from: number, to: number): UpstreamMoment[] {
    const first = this.#list.findLastIndex(({ at }) => at <= from)
    return this.#list.slice(Math.max(0, first)).filter(({ at }) => at <= to)
  }

  /**
   * How it was while anybody may last have learned where it stands, before some time: so long before that, and before
   * it last ceased to answer.
   */
  known (from: number, to: number, graceMs: number): UpstreamMoment[] {
    const ceased = this.#list.findLastIndex(({ at, condition }) => at <= from && condition === 'up')
    const end = this.#list[ceased + 1]?.at ?? from
    return this.between(Math.min(from, end) - graceMs, to).filter(({ condition }) =>
      condition === 'up' || condition === 'sick'
    )
  }
}
