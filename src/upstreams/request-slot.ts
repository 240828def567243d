import { type RateLimiter } from './rate-limiter.js'

/** Events of a slot. */
interface SlotEvents {
  onReleased(): void
  onSent(): void
  onStreaming(breakOff: (reason: Error) => void): void
}

/** Slot of one request in flight. */
export class RequestSlot {
  readonly #rateLimiter: RateLimiter | undefined
  readonly #events: SlotEvents
  #isSent = false

  constructor (rateLimiter: RateLimiter | undefined, events: SlotEvents) {
    this.#rateLimiter = rateLimiter
    this.#events = events
  }

  /** Records that the response is streamed, so its client decides how long the slot is held. */
  markStreaming (breakOff: (reason: Error) => void): void {
    this.#events.onStreaming(breakOff)
  }

  /** Records that the request was sent, perhaps again on another connection. */
  markSent (): void {
    if (this.#rateLimiter === undefined) return
    if (this.#isSent) this.#rateLimiter.recordResent()
    else this.#rateLimiter.recordSent()
    this.#isSent = true
    this.#events.onSent()
  }

  /** Frees the slot; an unsent request gives its reservation back. */
  release (): void {
    if (!this.#isSent) this.#rateLimiter?.releaseReservation()
    this.#events.onReleased()
  }
}
