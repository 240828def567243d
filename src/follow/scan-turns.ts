import { setImmediate as nextTurn } from 'node:timers/promises'

// Changes of this size take some milliseconds to read, in JSON and in BCS.
const turnBytes = 32 * 1024

/** Lets other work run between parts of a scan, because a page of megabytes would block hits for a second. */
export class ScanTurns {
  #endsAt = turnBytes

  /** Gives other work a turn after the end of a large value was found, which is a scan of its own. */
  async skipped (bytes: number): Promise<void> {
    if (bytes >= turnBytes) await nextTurn()
  }

  /** Gives other work a turn if the scan has come far enough since the last one. */
  async reached (at: number): Promise<void> {
    if (at < this.#endsAt) return
    await nextTurn()
    this.#endsAt = at + turnBytes
  }
}
