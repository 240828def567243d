import { constants, createReadStream } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { pipeline, type Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { linesIn } from './lines-in.js'
import { type LineOfFile } from './warm/lines.js'
import { UsageError } from '../app/io.js'

/** Instead of a file: what is piped in. */
export const inputName = '-'

// The largest body that any varve takes, and room for what stands before it; what is longer is no log.
const mostBytes = 16 * 1024 * 1024

/** Rejects a file that is not there, or cannot be read, before anything is fetched for the files before it. */
export async function requireReadable (files: readonly string[]): Promise<void> {
  for (const file of files.filter(name => name !== inputName)) {
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

/**
 * How long files are together; undefined where one of them does not say, or is not there, which is told when its turn
 * comes.
 */
export async function sizeOfFiles (files: readonly string[]): Promise<number | undefined> {
  // What is packed says nothing of how many lines are in it.
  if (files.some(file => file === inputName || isPacked(file))) return undefined
  const found = await Promise.all(files.map(async file => await stat(file).catch(() => undefined)))
  return found.every(file => file?.isFile()) ? found.reduce((sum, file) => sum + (file?.size ?? 0), 0) : undefined
}

/**
 * The lines of files, one after another, until the signal; those that end in .gz, as old logs do, are unpacked on the
 * way.
 */
export async function* linesOfFiles (
  files: readonly string[],
  input: () => Readable,
  signal: AbortSignal
): AsyncGenerator<LineOfFile> {
  for (const file of files) {
    const bytes = file === inputName ? input() : bytesOf(file)
    // A pipe may say nothing for as long as it likes.
    const letGo = (): void => {
      bytes.destroy()
    }
    signal.addEventListener('abort', letGo, { once: true })
    let number = 0
    try {
      for await (const { text } of linesIn(bytes, mostBytes)) {
        yield { file: file === inputName ? 'standard input' : file, number: ++number, text }
      }
    } catch (error) {
      if (signal.aborted) return
      throw new Error(`${file === inputName ? 'what is piped in' : file} cannot be read: ${(error as Error).message}`, {
        cause: error
      })
    } finally {
      signal.removeEventListener('abort', letGo)
    }
  }
}

function bytesOf (file: string): Readable {
  const bytes = createReadStream(file)
  // A fault of either ends what is read, with its reason.
  return isPacked(file) ? pipeline(bytes, createGunzip(), () => {}) : bytes
}

function isPacked (file: string): boolean {
  return file.endsWith('.gz')
}
