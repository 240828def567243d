import { outcomeNames } from '../proxy/outcomes.js'

/** Who answered a request for history that the nodes have pruned. */
export const prunedAnswers = ['cache', 'local', 'upstream'] as const

const groups = { outcomes: outcomeNames, pruned: prunedAnswers }

type Each<T> = { readonly [Group in keyof typeof groups]: Readonly<Record<typeof groups[Group][number], T>> }

/** What was counted since the process began. */
export type Counts = Each<number>

/** What was counted in the last minutes: a number for each step, the oldest first, the last one being under way. */
export interface RecentTold extends Each<readonly number[]> {
  readonly stepMs: number
  /**
   * When the last step began, in Unix time: steps begin at its multiples, so that those of several processes are the
   * same.
   */
  readonly lastStepMs: number
}

const stepMs = 5000
// Ten minutes, and the step that is under way.
const mostSteps = 121

/** The last minutes of one process: differences of what it counts anyway, so that a request costs nothing more. */
export class Recent {
  readonly #read: () => Counts
  readonly #wallClockMs: () => number
  readonly #firstMs: number
  // By when each step began; those in which nothing came are not in it.
  readonly #steps = new Map<number, Counts>()
  #before: Counts

  constructor (read: () => Counts, wallClockMs: () => number) {
    this.#read = read
    this.#wallClockMs = wallClockMs
    this.#firstMs = this.#stepNow()
    this.#before = read()
  }

  /** Some time has passed, less than a step where it is to be told well. */
  tick (): void {
    const now = this.#read()
    const before = this.#before
    const at = this.#stepNow()
    const sofar = this.#steps.get(at)
    this.#steps.set(
      at,
      each((group, name) => count(sofar, group, name) + count(now, group, name) - count(before, group, name))
    )
    this.#before = now
    for (const step of this.#steps.keys()) if (step <= at - mostSteps * stepMs) this.#steps.delete(step)
  }

  /** How many steps are remembered. */
  get size (): number {
    return this.#steps.size
  }

  /** The last minutes up to now. */
  get told (): RecentTold {
    this.tick()
    const last = this.#stepNow()
    const length = Math.min(mostSteps, (last - this.#firstMs) / stepMs + 1)
    return {
      stepMs,
      lastStepMs: last,
      ...each((group, name) =>
        Array.from({ length }, (_, at) => count(this.#steps.get(last - (length - 1 - at) * stepMs), group, name))
      )
    }
  }

  #stepNow (): number {
    return Math.floor(this.#wallClockMs() / stepMs) * stepMs
  }
}

/** The last minutes of several processes; what those have told that are gone stays until it is as old as that. */
export class RecentOfAll {
  readonly #own: Recent
  readonly #last = new Map<object, RecentTold>()
  readonly #gone = new WeakSet<object>()
  #ended: RecentTold

  constructor (wallClockMs: () => number) {
    // It answers no requests itself, and knows what time it is.
    this.#own = new Recent(() => each(() => 0), wallClockMs)
    this.#ended = this.#own.told
  }

  /**
   * Takes in what a process tells now; one whose clock was begun before or after a jump of the system's stands
   * elsewhere, and now is now all the same.
   */
  tells (process: object, told: RecentTold): void {
    if (this.#gone.has(process)) return
    const { lastStepMs } = this.#own.told
    // What is told over the end of a step is of the step before.
    const isOfNow = Math.abs(told.lastStepMs - lastStepMs) <= stepMs
    this.#last.set(process, isOfNow ? told : { ...told, lastStepMs })
  }

  /** A process has ended. */
  ends (process: object): void {
    const told = this.#last.get(process)
    this.#last.delete(process)
    this.#gone.add(process)
    if (told !== undefined) this.#ended = sumOf([this.#ended, told])
  }

  get told (): RecentTold {
    return sumOf([this.#own.told, this.#ended, ...this.#last.values()])
  }
}

function sumOf (all: readonly RecentTold[]): RecentTold {
  const lastStepMs = Math.max(...all.map(({ lastStepMs: last }) => last))
  const behind = ({ lastStepMs: last }: RecentTold): number => (lastStepMs - last) / stepMs
  const length = Math.min(mostSteps, Math.max(...all.map(told => behind(told) + told.outcomes.miss.length)))
  return {
    stepMs,
    lastStepMs,
    ...each((group, name) => {
      const columns = all.map(told => ({ steps: listOf(told, group, name), behind: behind(told) }))
      return Array.from(
        { length },
        (_, at) =>
          columns.reduce((sum, { steps, behind: late }) => sum + (steps[steps.length - length + at + late] ?? 0), 0)
      )
    })
  }
}

function each<T> (of: (group: keyof typeof groups, name: string) => T): Each<T> {
  const make = (group: keyof typeof groups): Record<string, T> =>
    Object.fromEntries(groups[group].map(name => [name, of(group, name)]))
  return { outcomes: make('outcomes'), pruned: make('pruned') } as Each<T>
}

function count (counts: Counts | undefined, group: keyof typeof groups, name: string): number {
  return (counts?.[group] as Record<string, number> | undefined)?.[name] ?? 0
}

function listOf (told: RecentTold, group: keyof typeof groups, name: string): readonly number[] {
  return (told[group] as Record<string, readonly number[]>)[name] ?? []
}
