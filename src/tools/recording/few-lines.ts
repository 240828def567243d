const most = 20

/** Says what there is to say of many things, each once and not without end. */
export class FewLines {
  readonly #say: (text: string) => void
  readonly #said = new Set<string>()

  constructor (say: (text: string) => void) {
    this.#say = say
  }

  add (text: string): void {
    if (this.#said.size > most || this.#said.has(text)) return
    this.#said.add(text)
    this.#say(
      this.#said.size > most ? '  ... and more like these, which are counted and not told one by one\n' : `  ${text}\n`
    )
  }
}
