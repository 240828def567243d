/** Upstreams that an operator took out of service, by name; a reload keeps them, a restart does not. */
export class Cordons {
  readonly #names: Set<string>

  constructor (names: readonly string[] = []) {
    this.#names = new Set(names)
  }

  get names (): readonly string[] {
    return [...this.#names]
  }

  has (name: string): boolean {
    return this.#names.has(name)
  }

  set (name: string, isCordoned: boolean): void {
    if (isCordoned) this.#names.add(name)
    else this.#names.delete(name)
  }
}
