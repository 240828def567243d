/** What one client may take: so many a second in the long run, and so many at once after a rest. */
export interface Allowance {
  readonly perSecond: number
  readonly burst: number
}

/** Where it is counted what each client has taken. */
export interface Buckets {
  /** Takes one for a client: 0 where there was one, else the milliseconds until there is, and nothing was taken. */
  take(subject: string, allowance: Allowance): number | Promise<number>
  /** Gives back one that was taken for what turned out to cost nothing. */
  giveBack(subject: string, allowance: Allowance): void
}

// Some 10 MB of addresses at most, whoever sends from however many (law 10); who is forgotten is not limited for what
// it took before.
const mostSubjects = 50_000
// Less than a clock shows.
const negligibleMs = 0.001

/** Counts what is taken in this process, on a clock that never jumps. */
export class LocalBuckets implements Buckets {
  readonly #now: () => number
  // For each client the time at which it may take a whole burst again; who was seen last is at the end.
  readonly #fullAtMs = new Map<string, number>()

  constructor (now: () => number) {
    this.#now = now
  }

  take (subject: string, { perSecond, burst }: Allowance): number {
    const nowMs = this.#now()
    const everyMs = 1000 / perSecond
    const toldMs = this.#fullAtMs.get(subject) ?? nowMs
    // Further ahead than a burst is long was told for another allowance, and means nothing for this one.
    const fullAtMs = toldMs >= nowMs && toldMs <= nowMs + burst * everyMs + negligibleMs ? toldMs : nowMs
    const waitMs = fullAtMs + everyMs - nowMs - burst * everyMs
    const isTaken = waitMs <= negligibleMs
    this.#remember(subject, isTaken ? fullAtMs + everyMs : fullAtMs)
    return isTaken ? 0 : waitMs
  }

  giveBack (subject: string, { perSecond }: Allowance): void {
    const fullAtMs = this.#fullAtMs.get(subject)
    if (fullAtMs !== undefined) this.#remember(subject, fullAtMs - 1000 / perSecond)
  }

  #remember (subject: string, fullAtMs: number): void {
    this.#fullAtMs.delete(subject)
    this.#fullAtMs.set(subject, fullAtMs)
    if (this.#fullAtMs.size <= mostSubjects) return
    const [longestUnseen] = this.#fullAtMs.keys()
    if (longestUnseen !== undefined) this.#fullAtMs.delete(longestUnseen)
  }
}
