/** What an operator and the link see of a breaker. */
export type BreakerState = 'closed' | 'open'

// So many failures one after another are no accident any more.
const maxFailures = 5
const probesAfterMs = [500, 1000, 2000] as const

/**
 * Stops asking what is sick, and asks again by probes of its own (within a second, growing to two), so that no read
 * pays for finding out.
 */
export class Breaker {
  readonly #probe: () => Promise<void>
  readonly #onChange: (state: BreakerState) => void
  #state: BreakerState = 'open'
  #failures = 0
  #probes = 0
  #timer: NodeJS.Timeout | undefined
  #underWay: Promise<void> | undefined
  #isOver = false

  /** Begins open: whoever was never reached is not asked yet. */
  constructor (probe: () => Promise<void>, onChange: (state: BreakerState) => void) {
    this.#probe = probe
    this.#onChange = onChange
  }

  get isClosed (): boolean {
    return this.#state === 'closed'
  }

  /** How many probes in a row have failed. */
  get failedProbes (): number {
    return this.#probes
  }

  succeeded (): void {
    this.#failures = 0
  }

  failed (): void {
    if (++this.#failures >= maxFailures) this.open()
  }

  /** Opens at once, where it is known that nothing can be reached. */
  open (): void {
    if (this.#state === 'open' && this.#timer !== undefined) return
    if (this.#state === 'closed') this.#change('open')
    this.#probes = 0
    this.#wait()
  }

  /** Probes now, as there is reason to believe that it has come back; resolves when it is known whether it has. */
  async probeNow (): Promise<void> {
    this.#underWay ??= this.#try().finally(() => {
      this.#underWay = undefined
    })
    await this.#underWay
  }

  stop (): void {
    this.#isOver = true
    clearTimeout(this.#timer)
  }

  #wait (): void {
    clearTimeout(this.#timer)
    if (this.#isOver) return
    this.#timer = setTimeout(() => {
      this.probeNow().catch(() => {})
    }, probesAfterMs[Math.min(this.#probes, probesAfterMs.length - 1)]).unref()
  }

  async #try (): Promise<void> {
    try {
      await this.#probe()
    } catch {
      this.#probes++
      return this.#wait()
    }
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#failures = 0
    this.#probes = 0
    if (this.#state === 'open' && !this.#isOver) this.#change('closed')
  }

  #change (state: BreakerState): void {
    this.#state = state
    // A connection that varve itself ended is no outage.
    if (!this.#isOver) this.#onChange(state)
  }
}
