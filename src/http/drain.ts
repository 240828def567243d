/**
 * Whether the process is on its way out; while it is, each answer closes its connection, so that no request is lost.
 */
export class Drain {
  #draining = false

  get isDraining (): boolean {
    return this.#draining
  }

  begin (): void {
    this.#draining = true
  }
}
