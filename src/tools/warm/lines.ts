import { OutOfReach } from './asking.js'
import { counted } from './progress.js'
import { readInLine } from './reads-in-line.js'
import { type Run, type Warming } from './warming.js'

// Of lines that nobody can read, as many are shown as a person would look at.
const shown = 3

/** A line, and where it stands. */
export interface LineOfFile {
  readonly file: string
  /** From 1. */
  readonly number: number
  readonly text: string
}

/** Asks for what the lines of files ask for, in their order. */
export class Lines implements Warming {
  readonly noun = { one: 'read', many: 'reads' }
  reads = 0
  /** Lines with a request that is of the moment, or no read that varve knows. */
  notKept = 0
  /** Lines that are no request. */
  unreadable = 0
  readonly #samples: string[] = []
  readonly #files: readonly string[]
  readonly #lines: AsyncIterator<LineOfFile>
  readonly #skip: number
  // Of what is not left out; undefined where nobody knows how long a file is, as of a pipe.
  #toReadBytes: number | undefined
  #doneBytes = 0
  // Of the line that was taken last, from 1, counted over all files.
  #number = 0
  readonly #underWay = new Set<number>()
  #isOver = false
  #failure: OutOfReach | undefined
  // One line at a time is taken from a file.
  #taking: Promise<unknown> = Promise.resolve()

  constructor (
    files: readonly string[],
    lines: AsyncIterable<LineOfFile>,
    skip: number,
    sizeBytes: number | undefined
  ) {
    this.#files = files
    this.#lines = lines[Symbol.asyncIterator]()
    this.#skip = skip
    this.#toReadBytes = sizeBytes
  }

  get share (): number | undefined {
    return this.#toReadBytes === undefined ? undefined : Math.min(1, this.#doneBytes / Math.max(1, this.#toReadBytes))
  }

  get resume (): readonly string[] | undefined {
    const done = Math.min(...[...this.#underWay].map(number => number - 1), this.#number)
    return this.#isOver && this.#underWay.size === 0 ? undefined : ['--skip', String(done), ...this.#files]
  }

  get lost (): string | undefined {
    return this.unreadable === 0
      ? undefined
      : `${counted(this.unreadable, 'line is no request', 'lines are no requests')}: ${this.#samples.join(', ')}${
        this.unreadable > shown ? ' ...' : ''
      }`
  }

  get aside (): string | undefined {
    return this.notKept === 0
      ? undefined
      : counted(this.notKept, 'line holds no read that can be kept', 'lines hold no read that can be kept')
  }

  async work ({ asking, tally, signal }: Run): Promise<void> {
    while (!signal.aborted) {
      const taken = await this.#take(signal)
      if (taken === undefined) return
      const { number, line } = taken
      const wanted = readInLine(line.text)
      if (typeof wanted === 'string') {
        if (wanted === 'not kept') this.notKept++
        if (wanted === 'unreadable') this.#cannotRead(line)
      } else {
        // Left in the set where it fails: from there the next run goes on.
        const came = await asking.ask(wanted)
        if (came === undefined) return
        tally.count(came)
        this.reads++
      }
      this.#underWay.delete(number)
      this.#doneBytes += lengthOf(line.text)
    }
  }

  async #take (signal: AbortSignal): Promise<{ number: number, line: LineOfFile } | undefined> {
    const taken = this.#taking.then(async () => await this.#next(signal))
    this.#taking = taken.catch(() => {})
    return await taken
  }

  async #next (signal: AbortSignal): Promise<{ number: number, line: LineOfFile } | undefined> {
    while (!this.#isOver) {
      // What has failed once seems to be at its end when it is asked again.
      if (this.#failure !== undefined) throw this.#failure
      const line = await this.#lines.next().catch((error: Error) => {
        throw this.#failure = new OutOfReach(error.message)
      })
      if (line.done === true) {
        // Who is told to stop hears no more of it.
        this.#isOver = !signal.aborted
        return undefined
      }
      this.#number++
      if (this.#number <= this.#skip) {
        // What takes no time says nothing of how long the rest will take.
        if (this.#toReadBytes !== undefined) this.#toReadBytes -= lengthOf(line.value.text)
        continue
      }
      this.#underWay.add(this.#number)
      return { number: this.#number, line: line.value }
    }
    return undefined
  }

  #cannotRead ({ file, number }: LineOfFile): void {
    this.unreadable++
    if (this.#samples.length < shown) this.#samples.push(`${file}:${number}`)
  }
}

// With its end.
function lengthOf (line: string): number {
  return Buffer.byteLength(line) + 1
}
