import { type Came, headerOf } from './came.js'

/** What has come of the reads of a run. */
export class Tally {
  /** Answered from the cache: they were there already. */
  hits = 0
  /** Read from a node, and kept. */
  stored = 0
  /** Read, and not kept, by the reason that varve gives. */
  readonly notKept = new Map<string, number>()
  /** Answered with an error, by its status. */
  readonly failed = new Map<number, number>()
  /** Asked again since varve or its nodes had no time, or could not be reached. */
  retries = 0
  /** Of the answers' bodies. */
  bytes = 0

  /** How many were answered with an error. */
  get failures (): number {
    return sumOf(this.failed)
  }

  /** Takes in an answer, by its status and its Cache-Status (RFC 9211). */
  count (came: Came): void {
    const { status, body } = came
    const cacheStatus = headerOf(came, 'cache-status')
    this.bytes += body.length
    if (status >= 400) add(this.failed, status)
    else if (cacheStatus === undefined) add(this.notKept, 'no varve there')
    else if (/; hit\b/.test(cacheStatus)) this.hits++
    // What joined another's fetch is kept where that one's is.
    else if (/; (?:stored|collapsed)\b/.test(cacheStatus)) this.stored++
    else add(this.notKept, /; detail=(\w+)/.exec(cacheStatus)?.[1] ?? 'of the moment')
  }
}

function add<K> (counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function sumOf (counts: Map<unknown, number>): number {
  let sum = 0
  for (const count of counts.values()) sum += count
  return sum
}
