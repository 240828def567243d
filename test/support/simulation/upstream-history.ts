import { type Condition } from './simulated-upstream.js'

/** Condition of an upstream from a time on. */
export interface UpstreamMoment {
  readonly at: number
  readonly condition: Condition
  readonly era: number
  readonly release: string
  readonly oldest: bigint
  readonly head: bigint
}

// Longer than any grace period.
const historyMs = 60_000

/** Record of an upstream's condition in the last minute, so that a read is judged by its whole duration. */
export class UpstreamHistory {
  #list: UpstreamMoment[] = []

  note (moment: UpstreamMoment): void {
    this.#list.push(moment)
    if (this.#list.length < 2000) return
    const first = this.#list.findLastIndex(({ at }) => at < moment.at - historyMs)
    // Finds the last healthy moment, by which varve knows an upstream that has been down for long.
    const lastUp = this.#list.findLastIndex(({ condition }) => condition === 'up')
    this.#list = this.#list.slice(Math.max(0, Math.min(first, lastUp)))
  }

  /** Returns the moments in a time span, including one that began before it. */
  between (from: number, to: number): UpstreamMoment[] {
    const first = this.#list.findLastIndex(({ at }) => at <= from)
    return this.#list.slice(Math.max(0, first)).filter(({ at }) => at <= to)
  }

  /** Returns the moments that varve may last have learned: within the grace period, and before the last failure. */
  known (from: number, to: number, graceMs: number): UpstreamMoment[] {
    const ceased = this.#list.findLastIndex(({ at, condition }) => at <= from && condition === 'up')
    const end = this.#list[ceased + 1]?.at ?? from
    return this.between(Math.min(from, end) - graceMs, to).filter(({ condition }) =>
      condition === 'up' || condition === 'unhealthy'
    )
  }
}
