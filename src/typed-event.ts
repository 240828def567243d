/** Typed event: calls its subscribers in order of subscription, before `publish` returns; an exception propagates. */
export class TypedEvent<T = void> {
  readonly #subscribers: Array<(event: T) => void> = []

  subscribe (subscriber: (event: T) => void): void {
    this.#subscribers.push(subscriber)
  }

  publish (event: T): void {
    for (const subscriber of this.#subscribers) subscriber(event)
  }
}
