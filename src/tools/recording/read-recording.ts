import { readLines } from '../read-lines.js'
import {
  type RecordingHeader,
  type RecordedExchange,
  parseRecordingHeader,
  parseRecordedExchange
} from './recording-format.js'

/** Invalid line of a recording. */
export interface RecordingMistake {
  readonly line: number
  readonly expected: string
}

/** Error for a file that is not a fully understood recording. */
export class InvalidRecordingError extends Error {
  readonly mistakes: readonly RecordingMistake[]

  constructor (mistakes: readonly RecordingMistake[]) {
    super(mistakes.map(({ line, expected }) => `line ${line}: ${expected}`).join('\n'))
    this.mistakes = mistakes
  }
}

/** Parsed recording. */
export interface Recording extends RecordingHeader {
  readonly exchanges: readonly RecordedExchange[]
  /** True if the recorder was killed while writing the last line, which is then left out. */
  readonly isTorn: boolean
}

// Many mistakes suggest the wrong file, so reading stops.
const maxMistakes = 10

/** Parses a recording; throws an error that lists the invalid lines. */
export async function readRecording (chunks: AsyncIterable<Buffer>): Promise<Recording> {
  const exchanges: RecordedExchange[] = []
  const mistakes: RecordingMistake[] = []
  let head: RecordingHeader | undefined
  let isTorn = false
  let number = 0
  for await (const { text, isTerminated } of readLines(chunks)) {
    number++
    const read = number === 1 ? parseRecordingHeader(text) : parseRecordedExchange(text)
    if ('mistake' in read) {
      if (number > 1 && !isTerminated) isTorn = true
      else mistakes.push({ line: number, expected: read.mistake })
    } else if ('form' in read.value) head = read.value
    else exchanges.push(read.value)
    // Without a valid header the format of the other lines is unknown.
    if (mistakes.length === maxMistakes || (number === 1 && head === undefined)) break
  }
  if (number === 0) {
    mistakes.push({ line: 1, expected: 'expected the first line of a recording, and the file is empty' })
  }
  if (mistakes.length > 0 || head === undefined) throw new InvalidRecordingError(mistakes)
  return { ...head, exchanges, isTorn }
}
