import { prependProgressBar } from './warm/format-progress.js'
import { type Io } from '../app/io.js'

/** Progress of a run: a line for people, the share done where known, and fields for programs. */
export interface ProgressReport {
  readonly line: string
  readonly share: number | undefined
  readonly facts: object
}

/** Output and format of progress reports. */
export interface ProgressReporterOptions {
  readonly io: Io
  readonly isJson: boolean
}

// Frequent enough for a moving bar, and infrequent enough for a log.
const barEveryMs = 200
const lineEveryMs = 10_000

/** Reports progress: a bar at a terminal, otherwise a line at intervals. */
export class ProgressReporter {
  readonly #options: ProgressReporterOptions
  readonly #report: (tookMs: number) => ProgressReport
  readonly #startedAt = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor (options: ProgressReporterOptions, report: (tookMs: number) => ProgressReport) {
    this.#options = options
    this.#report = report
    this.#timer = setInterval(() => {
      this.#print()
    }, this.#hasBar ? barEveryMs : lineEveryMs)
  }

  get #hasBar (): boolean {
    const { io, isJson } = this.#options
    return io.isTerminal && !isJson
  }

  stop (): void {
    clearInterval(this.#timer)
    if (this.#hasBar) this.#write('\r\x1b[K')
  }

  /** Prints the final report: a sentence for people, or fields for programs. */
  finish (summary: string, facts: object): void {
    this.#write(
      this.#options.isJson
        ? `${JSON.stringify({ event: 'end', ...this.#report(this.tookMs).facts, ...facts })}\n`
        : summary
    )
  }

  get tookMs (): number {
    return performance.now() - this.#startedAt
  }

  #print (): void {
    const { line, share, facts } = this.#report(this.tookMs)
    if (this.#options.isJson) this.#write(`${JSON.stringify({ event: 'progress', ...facts })}\n`)
    else this.#write(this.#hasBar ? `\r${prependProgressBar(share, line)}\x1b[K` : `${line}\n`)
  }

  #write (text: string): void {
    this.#options.io.out(text)
  }
}
