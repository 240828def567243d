import { type Asking } from './asking.js'
import { type Tally } from './tally.js'

/** What a run works with. */
export interface Run {
  readonly asking: Asking
  /** Told of what came of each read. */
  readonly tally: Tally
  readonly signal: AbortSignal
}

/** What is to be read into a cache, by several at once. */
export interface Warming {
  /** What is counted. */
  readonly noun: { readonly one: string, readonly many: string }
  readonly reads: number
  /** How much of it is done, from 0 to 1; undefined where nobody knows how much there is. */
  readonly share: number | undefined
  /** How a command line goes on from here; undefined where nothing is left. */
  readonly resume: readonly string[] | undefined
  /** What was left out on purpose, in a sentence. */
  readonly aside: string | undefined
  /** What could not be read, in a sentence. */
  readonly lost: string | undefined
  /** Reads until nothing is left, or the run is ended. */
  work(run: Run): Promise<void>
}

/** Has several work at once; where one fails, the others end what they are at. Resolves with the first failure. */
export async function runWarming (
  warming: Warming,
  run: Run,
  workers: number,
  stop: () => void
): Promise<Error | undefined> {
  let failure: Error | undefined
  await Promise.all(Array.from({ length: workers }, async () => {
    try {
      await warming.work(run)
    } catch (error) {
      failure ??= error as Error
      stop()
    }
  }))
  return failure
}
