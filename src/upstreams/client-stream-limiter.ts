/** A response that holds its slot for as long as its client reads. */
interface Stream {
  readonly clientId: string
  readonly startedAtMs: number
  breakOff(reason: Error): void
}

/** Options of a client stream limiter. */
export interface ClientStreamLimiterOptions {
  /** Streams that one client may hold while others wait. */
  readonly share: number
  readonly now: () => number
  /** True when a client other than this one waits for a slot. */
  readonly hasOther: (clientId: string) => boolean
  /** Runs after a stream was broken off for others. */
  readonly onBrokenOff: () => void
}

// Time that every stream gets, in which most end by themselves.
const minStreamMs = 1000

/** Streams of one upstream: breaks off those of a client beyond its share while other clients wait. */
export class ClientStreamLimiter {
  readonly #options: ClientStreamLimiterOptions
  // Oldest first.
  readonly #streams = new Set<Stream>()
  #timer: NodeJS.Timeout | undefined

  constructor (options: ClientStreamLimiterOptions) {
    this.#options = options
  }

  get size (): number {
    return this.#streams.size
  }

  /** Adds a stream; returns a function for its end. */
  add (clientId: string, breakOff: Stream['breakOff']): () => void {
    const stream: Stream = { clientId, startedAtMs: this.#options.now(), breakOff }
    this.#streams.add(stream)
    this.enforce()
    return () => {
      this.#streams.delete(stream)
    }
  }

  /** True when a client has its share, so others are served before it. */
  isReachedBy (clientId: string): boolean {
    return this.#streams.size >= this.#options.share && this.#streamsOf(clientId).length >= this.#options.share
  }

  /** Breaks off the oldest streams of a client beyond its share; the caller calls this when a request must wait. */
  enforce (): void {
    const { share, now, hasOther, onBrokenOff } = this.#options
    if (this.#streams.size <= share) return
    for (const clientId of new Set([...this.#streams].map(stream => stream.clientId))) {
      const own = this.#streamsOf(clientId)
      if (own.length <= share || !hasOther(clientId)) continue
      for (const { startedAtMs, breakOff } of own.slice(0, own.length - share)) {
        const leftMs = startedAtMs + minStreamMs - now()
        if (leftMs > 0) return this.#enforceAfter(leftMs)
        onBrokenOff()
        breakOff(new Error('stream broken off: other clients wait for the upstream'))
      }
    }
  }

  close (): void {
    clearTimeout(this.#timer)
  }

  #streamsOf (clientId: string): Stream[] {
    return [...this.#streams].filter(stream => stream.clientId === clientId)
  }

  #enforceAfter (ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.enforce()
    }, Math.ceil(ms))
  }
}
