/** Subset of AbortSignal by which a request is cancelled. */
export interface CancelSignal {
  readonly aborted: boolean
  readonly reason: Error
  /** True for the second request of a hedged read. */
  readonly isHedge?: boolean
  addEventListener(type: 'abort', listener: () => void, options: { readonly once: true }): void
  removeEventListener(type: 'abort', listener: () => void): void
}

// Shared error, since a stack trace per cancelled request would only cost time.
const cancelError = new DOMException('cancelled', 'AbortError')

/** Light AbortSignal for every read: a real one costs a tenth of a miss. Supports one listener. */
export class CancelSource implements CancelSignal {
  readonly reason = cancelError
  readonly isHedge: boolean
  #isCancelled = false
  #listener: (() => void) | undefined

  constructor (isHedge = false) {
    this.isHedge = isHedge
  }

  get aborted (): boolean {
    return this.#isCancelled
  }

  addEventListener (_type: 'abort', listener: () => void): void {
    this.#listener = listener
  }

  removeEventListener (): void {
    this.#listener = undefined
  }

  cancel (): void {
    this.#isCancelled = true
    this.#listener?.()
  }
}
