import { constants, createReadStream } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { type Readable } from 'node:stream'
import { type InputLine } from './warm/request-file-job.js'
import { UsageError } from '../app/io.js'

/** File name that means standard input. */
export const stdinName = '-'

// Largest request body plus the rest of its line; longer lines are not requests.
const maxLineBytes = 16 * 1024 * 1024
const newline = 0x0a

/** Rejects an unreadable file before anything is fetched for the files before it. */
export async function requireReadable (files: readonly string[]): Promise<void> {
  for (const file of files.filter(name => name !== stdinName)) {
    const reason = await access(file, constants.R_OK).then(
      async () => (await stat(file)).isDirectory() ? 'a folder, not a file (EISDIR)' : undefined,
      reasonOf
    )
    if (reason !== undefined) throw new UsageError(`cannot read ${file}: ${reason}`)
  }
}

function reasonOf ({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'ENOENT') return 'there is no such file (ENOENT)'
  return code === 'EACCES' ? 'permission denied (EACCES)' : message
}

/** Sums file sizes; undefined if one is unknown. A missing file fails later, when it is read. */
export async function totalSizeOf (files: readonly string[]): Promise<number | undefined> {
  if (files.includes(stdinName)) return undefined
  const found = await Promise.all(files.map(async file => await stat(file).catch(() => undefined)))
  return found.every(file => file?.isFile()) ? found.reduce((sum, file) => sum + (file?.size ?? 0), 0) : undefined
}

/** Yields the lines of all files in order until the signal aborts. */
export async function* readInputLines (
  files: readonly string[],
  input: () => Readable,
  signal: AbortSignal
): AsyncGenerator<InputLine> {
  for (const file of files) {
    const bytes = file === stdinName ? input() : createReadStream(file)
    // A pipe may stay silent, so only closing it ends the read.
    const destroy = (): void => {
      bytes.destroy()
    }
    signal.addEventListener('abort', destroy, { once: true })
    let number = 0
    try {
      for await (const text of readLines(bytes, maxLineBytes)) {
        yield { file: file === stdinName ? 'standard input' : file, number: ++number, text }
      }
    } catch (error) {
      if (signal.aborted) return
      throw new Error(`${file === stdinName ? 'what is piped in' : file} cannot be read: ${(error as Error).message}`, {
        cause: error
      })
    } finally {
      signal.removeEventListener('abort', destroy)
    }
  }
}

/**
 * Splits only at line feeds, because text readers also split at other characters. Throws if a line exceeds the limit.
 */
async function* readLines (chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<string> {
  let partial: Buffer[] = []
  let partialBytes = 0
  let number = 1
  for await (const chunk of chunks) {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      yield Buffer.concat([...partial, chunk.subarray(from, at)]).toString()
      partial = []
      partialBytes = 0
      from = at + 1
      number++
    }
    partial.push(chunk.subarray(from))
    partialBytes += chunk.length - from
    if (partialBytes > maxBytes) throw new Error(`line ${number} is longer than ${maxBytes} bytes`)
  }
  const rest = Buffer.concat(partial).toString()
  if (rest !== '') yield rest
}
