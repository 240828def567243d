/** State of the circuit breaker; open means that no commands are sent. */
export type CircuitState = 'closed' | 'open'

const maxFailures = 5
const probeBackoffMs = [500, 1000, 2000] as const

/** Opens after five failures in a row; closes by its own probes, so no read pays (law 6: the cache can only help). */
export class CircuitBreaker {
  readonly #probe: () => Promise<void>
  readonly #onChange: (state: CircuitState) => void
  #state: CircuitState = 'open'
  #failures = 0
  #failedProbes = 0
  #timer: NodeJS.Timeout | undefined
  #probing: Promise<void> | undefined
  #isStopped = false

  /** Begins open, since Redis was never reached yet. */
  constructor (probe: () => Promise<void>, onChange: (state: CircuitState) => void) {
    this.#probe = probe
    this.#onChange = onChange
  }

  get isClosed (): boolean {
    return this.#state === 'closed'
  }

  /** Number of failed probes in a row. */
  get failedProbes (): number {
    return this.#failedProbes
  }

  recordSuccess (): void {
    this.#failures = 0
  }

  recordFailure (): void {
    if (++this.#failures >= maxFailures) this.open()
  }

  /** Opens at once, when the connection is known to be lost. */
  open (): void {
    if (this.#state === 'open' && this.#timer !== undefined) return
    if (this.#state === 'closed') this.#setState('open')
    this.#failedProbes = 0
    this.#scheduleProbe()
  }

  /** Probes now, as after a reconnect; resolves with the probe, successful or not. */
  async probeNow (): Promise<void> {
    this.#probing ??= this.#runProbe().finally(() => {
      this.#probing = undefined
    })
    await this.#probing
  }

  stop (): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }

  #scheduleProbe (): void {
    clearTimeout(this.#timer)
    if (this.#isStopped) return
    this.#timer = setTimeout(
      () => this.probeNow().catch(() => {}),
      probeBackoffMs[Math.min(this.#failedProbes, probeBackoffMs.length - 1)]
    ).unref()
  }

  async #runProbe (): Promise<void> {
    try {
      await this.#probe()
    } catch {
      this.#failedProbes++
      return this.#scheduleProbe()
    }
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#failures = 0
    this.#failedProbes = 0
    if (this.#state === 'open' && !this.#isStopped) this.#setState('closed')
  }

  #setState (state: CircuitState): void {
    this.#state = state
    // Ignores the end of the connection that varve itself closed.
    if (!this.#isStopped) this.#onChange(state)
  }
}
