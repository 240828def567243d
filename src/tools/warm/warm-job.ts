import { type WarmClient } from './warm-client.js'
import { type WarmCounts } from './warm-counts.js'

/** Parts that a job of a warm run gets. */
export interface WarmContext {
  readonly client: WarmClient
  /** Counts the outcome of each read. */
  readonly counts: WarmCounts
  readonly signal: AbortSignal
}

/** Work that several workers share. */
export interface WarmJob {
  /** Unit for progress messages. */
  readonly noun: { readonly one: string, readonly many: string }
  readonly reads: number
  /** Share done from 0 to 1; undefined if the total is unknown. */
  readonly share: number | undefined
  /** Arguments that resume the run; undefined if nothing is left. */
  readonly resume: readonly string[] | undefined
  /** Sentence about reads that were skipped on purpose. */
  readonly skippedNote: string | undefined
  /** Sentence about input that could not be read. */
  readonly unreadNote: string | undefined
  /** Works until nothing is left or the run ends. */
  work(context: WarmContext): Promise<void>
}

/** Runs several workers; after a failure the others finish their current reads. Resolves with the first failure. */
export async function runWarmJob (
  job: WarmJob,
  context: WarmContext,
  concurrency: number,
  stop: () => void
): Promise<Error | undefined> {
  let failure: Error | undefined
  await Promise.all(Array.from({ length: concurrency }, async () => {
    try {
      await job.work(context)
    } catch (error) {
      failure ??= error as Error
      stop()
    }
  }))
  return failure
}
