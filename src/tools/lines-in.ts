/** A line, and whether it ended as lines do; the last one may be torn. */
export interface Line {
  readonly text: string
  readonly isEnded: boolean
}

const newline = 0x0a

/**
 * The lines of a file, by the byte, since what reads lines of text takes other signs for the end of one too. Throws
 * where one is longer than it may be.
 */
export async function* linesIn (chunks: AsyncIterable<Buffer>, mostBytes = Infinity): AsyncGenerator<Line> {
  let begun: Buffer[] = []
  let begunBytes = 0
  let number = 1
  for await (const chunk of chunks) {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      yield { text: textOf([...begun, chunk.subarray(from, at)]), isEnded: true }
      begun = []
      begunBytes = 0
      from = at + 1
      number++
    }
    begun.push(chunk.subarray(from))
    begunBytes += chunk.length - from
    if (begunBytes > mostBytes) throw new Error(`line ${number} is longer than ${mostBytes} bytes`)
  }
  const rest = textOf(begun)
  if (rest !== '') yield { text: rest, isEnded: false }
}

function textOf (parts: readonly Buffer[]): string {
  return Buffer.concat(parts).toString()
}
