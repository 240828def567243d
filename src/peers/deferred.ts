/** A promise that its owner settles. */
export class Deferred<T> {
  readonly promise: Promise<T>
  #resolve: (value: T) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor () {
    this.promise = new Promise<T>((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // Handles the rejection, because not every promise has a waiter.
    this.promise.catch(() => {})
  }

  resolve (value: T): void {
    this.#resolve(value)
  }

  reject (error: Error): void {
    this.#reject(error)
  }
}
