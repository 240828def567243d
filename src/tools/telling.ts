import { bytesIn, counted, grouped, perSecond, runLine, withBar } from './warm/progress.js'
import { type Io } from '../app/io.js'

/**
 * What a run tells of itself: a line for people, how much of it is done where that is known, and facts for programs.
 */
export interface Told {
  readonly line: string
  readonly share: number | undefined
  readonly facts: object
}

/** How far a run over entries is. */
export interface Entries {
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
  readonly #of: (tookMs: number) => Told
  readonly #begunAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor (options: TellingOptions, of: (tookMs: number) => Told) {
    this.#options = options
    this.#of = of
    this.#timer = setInterval(() => {
      this.#tell()
    }, this.#isBar ? barEveryMs : lineEveryMs)
  }

  get #isBar (): boolean {
    const { io, isJson, isOutTaken } = this.#options
    return io.isTerminal && !isJson && !isOutTaken
  }

  stop (): void {
    clearInterval(this.#timer)
    if (this.#isBar) this.#say('\r\x1b[K')
  }

  /** The last word: a sentence for people, facts for programs. */
  end (sentence: string, facts: object): void {
    this.#say(
      this.#options.isJson
        ? `${JSON.stringify({ event: 'end', ...this.#of(this.tookMs).facts, ...facts })}\n`
        : sentence
    )
  }

  get tookMs (): number {
    return performance.now() - this.#begunAt
  }

  #tell (): void {
    const { line, share, facts } = this.#of(this.tookMs)
    if (this.#options.isJson) this.#say(`${JSON.stringify({ event: 'progress', ...facts })}\n`)
    else this.#say(this.#isBar ? `\r${withBar(share, line)}\x1b[K` : `${line}\n`)
  }

  #say (text: string): void {
    const { io, isOutTaken } = this.#options
    if (isOutTaken) io.err(text)
    else io.out(text)
  }
}

/** What a run over entries tells of itself. */
export function toldOf ({ entries, bytes, share, counts }: Entries, tookMs: number): Told {
  const rate = perSecond(entries, tookMs)
  return {
    line: runLine(share, tookMs, [
      counted(entries, 'entry', 'entries'),
      `${grouped(Math.round(rate))}/s`,
      bytesIn(bytes)
    ]),
    share,
    facts: {
      entries,
      ...counts,
      bytes,
      seconds: Math.round(tookMs) / 1000,
      perSecond: Math.round(rate * 10) / 10,
      share: Math.round(share * 10_000) / 10_000
    }
  }
}
