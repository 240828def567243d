/** Line of a file; the last one lacks its line feed if the writer was interrupted. */
export interface Line {
  readonly text: string
  readonly isTerminated: boolean
}

const newline = 0x0a

/**
 * Splits only at line feeds, because text readers also split at other characters. Throws if a line exceeds the limit.
 */
export async function* readLines (chunks: AsyncIterable<Buffer>, maxBytes = Infinity): AsyncGenerator<Line> {
  let partial: Buffer[] = []
  let partialBytes = 0
  let number = 1
  for await (const chunk of chunks) {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      yield { text: textOf([...partial, chunk.subarray(from, at)]), isTerminated: true }
      partial = []
      partialBytes = 0
      from = at + 1
      number++
    }
    partial.push(chunk.subarray(from))
    partialBytes += chunk.length - from
    if (partialBytes > maxBytes) throw new Error(`line ${number} is longer than ${maxBytes} bytes`)
  }
  const rest = textOf(partial)
  if (rest !== '') yield { text: rest, isTerminated: false }
}

function textOf (parts: readonly Buffer[]): string {
  return Buffer.concat(parts).toString()
}
