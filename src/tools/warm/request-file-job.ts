import { UnreachableError } from './warm-client.js'
import { formatCount } from './format-progress.js'
import { parseWarmRequest } from './parse-warm-request.js'
import { type WarmContext, type WarmJob } from './warm-job.js'

// Number of unreadable lines shown as examples.
const maxSamples = 3

/** Line with its file. */
export interface InputLine {
  readonly file: string
  /** Line number, starting at 1. */
  readonly number: number
  readonly text: string
}

/** Fetches the requests in files, in order. */
export class RequestFileJob implements WarmJob {
  readonly noun = { one: 'read', many: 'reads' }
  reads = 0
  /** Lines with a latest read or with a request that varve does not know. */
  notCacheable = 0
  /** Lines that are no request. */
  unreadable = 0
  readonly #samples: string[] = []
  readonly #files: readonly string[]
  readonly #lines: AsyncIterator<InputLine>
  readonly #skip: number
  // Bytes of all lines that count; undefined if an input is a pipe.
  #totalBytes: number | undefined
  #doneBytes = 0
  // Number of the last line taken, starting at 1 and counted over all files.
  #number = 0
  readonly #inFlight = new Set<number>()
  #isDone = false
  #failure: UnreachableError | undefined
  // Serializes reading, so that workers take one line at a time.
  #taken: Promise<unknown> = Promise.resolve()

  constructor (
    files: readonly string[],
    lines: AsyncIterable<InputLine>,
    skip: number,
    sizeBytes: number | undefined
  ) {
    this.#files = files
    this.#lines = lines[Symbol.asyncIterator]()
    this.#skip = skip
    this.#totalBytes = sizeBytes
  }

  get share (): number | undefined {
    return this.#totalBytes === undefined ? undefined : Math.min(1, this.#doneBytes / Math.max(1, this.#totalBytes))
  }

  get resume (): readonly string[] | undefined {
    const done = Math.min(...[...this.#inFlight].map(number => number - 1), this.#number)
    return this.#isDone && this.#inFlight.size === 0 ? undefined : ['--skip', String(done), ...this.#files]
  }

  get unreadNote (): string | undefined {
    return this.unreadable === 0
      ? undefined
      : `${formatCount(this.unreadable, 'line is not a request', 'lines are not requests')}: ${
        this.#samples.join(', ')
      }${this.unreadable > maxSamples ? ' ...' : ''}`
  }

  get skippedNote (): string | undefined {
    return this.notCacheable === 0
      ? undefined
      : formatCount(this.notCacheable, 'line is not a cacheable read', 'lines are not cacheable reads')
  }

  async work ({ client, counts, signal }: WarmContext): Promise<void> {
    while (!signal.aborted) {
      const taken = await this.#takeLine(signal)
      if (taken === undefined) return
      const { number, line } = taken
      const request = parseWarmRequest(line.text)
      if (typeof request === 'string') {
        if (request === 'not cacheable') this.notCacheable++
        if (request === 'unreadable') this.#noteUnreadable(line)
      } else {
        // A failed line stays in the set, so that the next run resumes there.
        const response = await client.fetch(request)
        if (response === undefined) return
        counts.count(response)
        this.reads++
      }
      this.#inFlight.delete(number)
      this.#doneBytes += lengthOf(line.text)
    }
  }

  async #takeLine (signal: AbortSignal): Promise<{ number: number, line: InputLine } | undefined> {
    const taken = this.#taken.then(async () => await this.#next(signal))
    this.#taken = taken.catch(() => {})
    return await taken
  }

  async #next (signal: AbortSignal): Promise<{ number: number, line: InputLine } | undefined> {
    while (!this.#isDone) {
      // A failed generator reports its end on the next call, so the error is stored.
      if (this.#failure !== undefined) throw this.#failure
      const line = await this.#lines.next().catch((error: Error) => {
        throw this.#failure = new UnreachableError(error.message)
      })
      if (line.done === true) {
        // An aborted input ends early, so its end does not mean that all lines are done.
        this.#isDone = !signal.aborted
        return undefined
      }
      this.#number++
      if (this.#number <= this.#skip) {
        // Skipped lines take no time, so they do not count in the estimate.
        if (this.#totalBytes !== undefined) this.#totalBytes -= lengthOf(line.value.text)
        continue
      }
      this.#inFlight.add(this.#number)
      return { number: this.#number, line: line.value }
    }
    return undefined
  }

  #noteUnreadable ({ file, number }: InputLine): void {
    this.unreadable++
    if (this.#samples.length < maxSamples) this.#samples.push(`${file}:${number}`)
  }
}

// Counts the line feed too.
function lengthOf (line: string): number {
  return Buffer.byteLength(line) + 1
}
