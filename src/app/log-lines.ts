import { type Io } from './io.js'

/** Where lines of the log go, and what becomes of those that find no room. */
export interface LogLines {
  /** What writes a line. */
  readonly write: (line: string) => void
  /** How many lines found no room so far. */
  readonly lost: () => number
}

/** What a log is written with. */
export interface LogLinesOptions {
  /** Takes out of a line what must not be read. */
  readonly mask: (line: string) => string
  /** How a line is written for who reads it. */
  readonly render: (line: string) => string
  /** Told when there is room again, with how many lines were lost meanwhile. */
  readonly onRoom: (lost: number) => void
}

// What waits for a reader that does not read is lost beyond this, or it would fill the memory (law 10).
const maxWaitingBytes = 1_048_576
// That there is room again is told when half of it is, or who reads slowly would hear of little else.
const roomBytes = maxWaitingBytes / 2
// Where pino prints a level: errors, and what may have been told by one, are what speaks of what others have said.
const levelAt = '{"level":'.length
const warning = '4'
// A client may have put a key into its URL.
const access = '"msg":"answered"}\n'

/**
 * Writes lines where there is room: a disk that is full, a reader that is gone or stuck, cost lines and nothing else.
 */
export function logLines (
  { out, waitingBytes }: Pick<Io, 'out' | 'waitingBytes'>,
  { mask, render, onRoom }: LogLinesOptions
): LogLines {
  let lost = 0
  let told = 0
  let isTorn = false
  const done = (error?: Error | null): void => {
    if (error !== undefined && error !== null) {
      lost++
      isTorn = true
    } else if (lost > told && waitingBytes() <= roomBytes) {
      const since = lost - told
      told = lost
      onRoom(since)
    }
  }
  return {
    lost: () => lost,
    write: line => {
      if (waitingBytes() > maxWaitingBytes) {
        lost++
        return
      }
      const speaksOfOthers = (line[levelAt] ?? '') >= warning || line.endsWith(access)
      const text = render(speaksOfOthers ? mask(line) : line)
      // Of the last line before a disk was full there may be a part.
      const begun = isTorn ? `\n${text}` : text
      isTorn = false
      out(begun, done)
    }
  }
}
