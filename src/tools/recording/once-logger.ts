const maxMessages = 20

/** Logs each message once and limits their number (law 10: nothing grows without bound). */
export class OnceLogger {
  readonly #write: (text: string) => void
  readonly #logged = new Set<string>()

  constructor (write: (text: string) => void) {
    this.#write = write
  }

  log (text: string): void {
    if (this.#logged.size > maxMessages || this.#logged.has(text)) return
    this.#logged.add(text)
    this.#write(
      this.#logged.size > maxMessages
        ? '  ... and more like these, which are only counted\n'
        : `  ${text}\n`
    )
  }
}
