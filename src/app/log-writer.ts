import { TypedEvent } from '../typed-event.js'
import { type Io } from './io.js'

/** Writer of log lines that drops lines when its buffer is full. */
export interface LogWriter {
  readonly write: (line: string) => void
  /** Number of lines dropped since the start. */
  readonly lostLines: () => number
  /** The buffer has drained; the event is the number of lines lost meanwhile. */
  readonly recovered: TypedEvent<number>
}

/** Transformations of a log writer. */
export interface LineTransforms {
  /** Removes secrets from a line. */
  readonly mask: (line: string) => string
  /** Formats a line for a terminal or for programs. */
  readonly render: (line: string) => string
}

// Lines beyond this limit are dropped, because a stuck reader would otherwise fill the memory (law 10: nothing grows
// without bound).
const maxBufferedBytes = 1_048_576
// Half the limit, so that a slow reader does not receive this notice all the time.
const recoveredBytes = maxBufferedBytes / 2
// Position of pino's level digit: warnings and errors may quote text from outside, so they need masking.
const levelOffset = '{"level":'.length
const warningDigit = '4'
// Access lines quote the client's URL, which may contain an API key.
const accessLineEnd = '"msg":"request completed"}\n'

/** Writes lines while the buffer has capacity; a full disk or a stuck reader costs log lines and nothing else. */
export function logWriterOf (
  { out, bufferedBytes }: Pick<Io, 'out' | 'bufferedBytes'>,
  { mask, render }: LineTransforms
): LogWriter {
  const recovered = new TypedEvent<number>()
  let lost = 0
  let reportedLost = 0
  let isTorn = false
  const done = (error?: Error | null): void => {
    if (error !== undefined && error !== null) {
      lost++
      isTorn = true
    } else if (lost > reportedLost && bufferedBytes() <= recoveredBytes) {
      const newlyLost = lost - reportedLost
      reportedLost = lost
      recovered.publish(newlyLost)
    }
  }
  return {
    lostLines: () => lost,
    recovered,
    write: line => {
      if (bufferedBytes() > maxBufferedBytes) {
        lost++
        return
      }
      const needsMasking = (line[levelOffset] ?? '') >= warningDigit || line.endsWith(accessLineEnd)
      const text = render(needsMasking ? mask(line) : line)
      // A full disk may have cut the previous line, so the next one starts on a new line.
      const wholeLine = isTorn ? `\n${text}` : text
      isTorn = false
      out(wholeLine, done)
    }
  }
}
