import { type Pair } from './form.js'
import { exactly, type Asked, inMeaning, askedIn } from './question.js'

/** Answers to the same question, in their order; when all were given, the last one is given again. */
interface Turns {
  readonly pairs: Pair[]
  next: number
}

/** The answers of a recording by their questions. */
export class Tape {
  readonly #exact = new Map<string, Turns>()
  readonly #meant = new Map<string, Turns>()
  readonly #given = new Set<Pair>()
  readonly #size: number

  constructor (pairs: readonly Pair[]) {
    this.#size = pairs.length
    for (const pair of pairs) {
      const asked = askedIn(pair.request)
      // What was cut short of the question nobody can ask again.
      if (asked === undefined) continue
      put(this.#exact, exactly(asked), pair)
      if (isForAnybody(pair)) put(this.#meant, inMeaning(asked), pair)
    }
  }

  /** What was answered to the very same question, or else to one that means the same; undefined where nothing was. */
  answerTo (asked: Asked): Pair | undefined {
    const turns = this.#exact.get(exactly(asked)) ?? this.#meant.get(inMeaning(asked))
    if (turns === undefined) return undefined
    const pair = turns.pairs[Math.min(turns.next++, turns.pairs.length - 1)]
    if (pair !== undefined) this.#given.add(pair)
    return pair
  }

  /** How many questions there are, by their very words. */
  get questions (): number {
    return this.#exact.size
  }

  /** How many answers were never asked for. */
  get notGiven (): number {
    return this.#size - this.#given.size
  }
}

function put (turns: Map<string, Turns>, key: string, pair: Pair): void {
  const there = turns.get(key)
  if (there === undefined) turns.set(key, { pairs: [pair], next: 0 })
  else there.pairs.push(pair)
}

// That nothing has changed, or a part, is an answer to who has the rest.
function isForAnybody ({ answer }: Pair): boolean {
  return answer?.status !== 304 && answer?.status !== 206
}
