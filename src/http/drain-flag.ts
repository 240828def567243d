/** Flag of a process that shuts down: every response then closes its connection, so that no request is lost. */
export class DrainFlag {
  #draining = false

  get isDraining (): boolean {
    return this.#draining
  }

  start (): void {
    this.#draining = true
  }
}
