import { linesIn } from '../lines-in.js'
import { type Head, type Pair, readHead, readPair } from './form.js'

/** A line of a file that is not what it should be, by its number. */
export interface Mistake {
  readonly line: number
  readonly expected: string
}

/** A file that is no recording, or not one that is wholly understood. */
export class NoRecording extends Error {
  readonly mistakes: readonly Mistake[]

  constructor (mistakes: readonly Mistake[]) {
    super(mistakes.map(({ line, expected }) => `line ${line}: ${expected}`).join('\n'))
    this.mistakes = mistakes
  }
}

/** All that a recording has. */
export interface Recording extends Head {
  readonly pairs: readonly Pair[]
  /** Whether its last line is torn, as where the recorder was killed within it; it is left out. */
  readonly isTorn: boolean
}

// Who has so many may have the wrong file altogether.
const mostMistakes = 10

/** Reads a recording from the bytes of its file; throws with what is wrong, by line. */
export async function readRecording (chunks: AsyncIterable<Buffer>): Promise<Recording> {
  const pairs: Pair[] = []
  const mistakes: Mistake[] = []
  let head: Head | undefined
  let isTorn = false
  let number = 0
  for await (const { text, isEnded } of linesIn(chunks)) {
    number++
    const read = number === 1 ? readHead(text) : readPair(text)
    if ('mistake' in read) {
      if (number > 1 && !isEnded) isTorn = true
      else mistakes.push({ line: number, expected: read.mistake })
    } else if ('form' in read.value) head = read.value
    else pairs.push(read.value)
    // What follows cannot be read without knowing its form.
    if (mistakes.length === mostMistakes || (number === 1 && head === undefined)) break
  }
  if (number === 0) {
    mistakes.push({ line: 1, expected: 'expected the first line of a recording, and the file is empty' })
  }
  if (mistakes.length > 0 || head === undefined) throw new NoRecording(mistakes)
  return { ...head, pairs, isTorn }
}
