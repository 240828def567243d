import { bytesIn, grouped, perSecond, runLine, withBar } from '../warm/progress.js'
import { type Io } from './io.js'

/** How far a run over entries is. */
export interface Run {
  readonly entries: number
  readonly bytes: number
  readonly share: number
  /** Anything else, by the name that a program knows it by. */
  readonly counts: Readonly<Record<string, number>>
}

/** Where and how a run is told of. */
export interface TellingOptions {
  readonly io: Io
  readonly isJson: boolean
  /** The standard output is taken by what is written there. */
  readonly isOutTaken: boolean
}

// Often enough to see it move; seldom enough for a log.
const barEveryMs = 200
const lineEveryMs = 10_000

/** Tells of a run while it goes on: a bar at a terminal, else a line now and then. */
export class Telling {
  readonly #options: TellingOptions
  readonly #of: () => Run
  readonly #begunAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor (options: TellingOptions, of: () => Run) {
    this.#options = options
    this.#of = of
    this.#timer = setInterval(() => { this.#tell() }, this.#isBar ? barEveryMs : lineEveryMs)
  }

  get #isBar (): boolean {
    const { io, isJson, isOutTaken } = this.#options
    return io.isTerminal && !isJson && !isOutTaken
  }

  get #tookMs (): number {
    return performance.now() - this.#begunAt
  }

  stop (): void {
    clearInterval(this.#timer)
    if (this.#isBar) this.#say('\r\x1b[K')
  }

  /** The last word: a sentence for people, facts for programs. */
  end (sentence: string, facts: object): void {
    this.#say(this.#options.isJson ? `${JSON.stringify({ event: 'end', ...this.#facts(), ...facts })}\n` : sentence)
  }

  get tookMs (): number {
    return this.#tookMs
  }

  #tell (): void {
    const { entries, bytes, share } = this.#of()
    if (this.#options.isJson) return this.#say(`${JSON.stringify({ event: 'progress', ...this.#facts() })}\n`)
    const line = runLine(share, this.#tookMs, [`${grouped(entries)} entries`, `${grouped(Math.round(perSecond(entries, this.#tookMs)))}/s`, bytesIn(bytes)])
    this.#say(this.#isBar ? `\r${withBar(share, line)}\x1b[K` : `${line}\n`)
  }

  #facts (): object {
    const { entries, bytes, share, counts } = this.#of()
    return { entries, ...counts, bytes, seconds: Math.round(this.#tookMs) / 1000, perSecond: Math.round(perSecond(entries, this.#tookMs) * 10) / 10, share: Math.round(share * 10_000) / 10_000 }
  }

  #say (text: string): void {
    const { io, isOutTaken } = this.#options
    if (isOutTaken) io.err(text)
    else io.out(text)
  }
}
